"""Loads a target and its tokenizer: a Hub id, a local folder, or the embedded default model; and makes its twins."""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from pydantic import TypeAdapter, ValidationError
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from aded.errors import BadInput, first_line
from aded.files.atomic import write_text
from aded.files.models.embedded_model import place_of
from aded.files.models.pretrained import check_nothing_is_passed_over, check_weights, pretrained
from aded.files.models.tokenizer import load_tokenizer
from aded.files.places import cache_folder
from aded.kernels import ops
from aded.kernels import threads as thread_counts
from aded.kernels.attention import register as register_attention
from aded.kernels.linear import KERNELS as LINEAR_KERNELS
from aded.kernels.linear import (
    ROWS,
    PackedLinear,
    Times,
    choose_kernels,
    packed_layers,
    replace_linears,
    restore_linears,
)
from aded.settings import Count, Dtype, FilePath, Kernels, checked
from aded.targets.eager import EagerTarget, eos_token_ids
from aded.targets.engine import Loaded
from aded.targets.self_check import SelfCheck

log = logging.getLogger(__name__)
_kernel_times: dict[str, Times] = {}
"""What this process has measured or read; see aded/kernels/linear.py."""


class Float32Head(torch.nn.Module):
    """An output projection in float32 over hidden states of a coarser dtype: [.., hidden] to [.., vocabulary]."""

    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        weight: torch.Tensor = head.get_parameter("weight")
        bias = getattr(head, "bias", None)
        self.weight = torch.nn.Parameter(weight.detach().float(), requires_grad=False)
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach().float(), False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(hidden.float(), self.weight, self.bias)


def load(
    name: str | Path,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    cache: str | None = None,
    key: str = "model",
    revision: str = "main",
    trust_remote_code: bool = False,
    **options: Any,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model and its tokenizer, as the ordinary `from_pretrained` gives them. Raises BadInput naming `key`.

    name: a Hub id, a folder, or `embedded`; cache: the folder of what is converted once; see place_of.
    dtype: float32, bfloat16 or float16.
    trust_remote_code: run code that the folder or the Hub's files bring along?
    options: of the model's from_pretrained.
    """
    beside = key.removesuffix(key.rpartition(".")[2])
    number, placed = checked_dtype(dtype, f"{beside}dtype"), checked_device(device, f"{beside}device")
    folder = place_of(name, key, cache)
    files: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    tokenizer = load_tokenizer(folder, key=key, **files)
    check_nothing_is_passed_over(folder, key, revision)
    options |= {"dtype": number, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, report = pretrained(AutoModelForCausalLM, folder, key, **files, **options)
    check_weights(model, report, str(name), key)
    return (model if options.get("device_map") else model.to(placed)), tokenizer


def load_target(
    path: FilePath,
    *,
    dtype: Dtype = "bfloat16",
    device: str = "cpu",
    cache: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    device_map: str | dict[str, Any] | None = None,
    attention: str | None = None,
    head: Literal["model", "float32"] = "model",
    kernels: Kernels = "exact",
    threads: Count | None = None,
) -> Loaded:
    """Load model and tokenizer with the ordinary `from_pretrained`. Raises BadInput naming the key.

    path, cache: as `load` takes them.
    dtype: of the weights, in which most is computed.
    device: cpu, cuda or cuda:N.
    revision: a commit, tag or branch on the Hub; None: main.
    trust_remote_code: run code that the folder or the Hub's files bring along? Only where you trust who made them.
    device_map: as `from_pretrained` takes it, for a model over several devices; None: it is on `device`.
    attention: transformers' attn_implementation; None: sdpa where the model has it.
    head: `model`, or `float32` for an output projection in float32.
    kernels: on processors `exact` for our linear layers and attention, the same to the last bit in a tree and alone;
        `fast` where each number of rows may have another kernel; `torch` for none of ours.
    threads: of the forward pass on a processor; None: one per core.
    """
    _quiet()
    options: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    if attention:
        options["attn_implementation"] = attention
    if device_map:
        options["device_map"] = device_map
    model, tokenizer = load(path, dtype=dtype, device=device, cache=cache, key="model.path", **options)
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())  # device_map may place them
    if on_cpu:
        # Weights mapped from safetensors decode slower than the same weights in anonymous memory.
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        model.tie_weights()
    check, own = SelfCheck(model), kernels if on_cpu else "torch"
    target = checked_target(model, check, own, own_attention=attention is None, threads=threads, cache=cache)
    if head == "float32" and dtype != "float32":
        target = with_float32_head(target)
    return Loaded(target, tokenizer, eos_token_ids(model))


def checked_target(
    model: Any,
    check: SelfCheck,
    kernels: str,
    *,
    own_attention: bool = True,
    threads: int | None = None,
    cache: str | None = None,
    trained: bool = True,
) -> EagerTarget:
    """A target that passed `check`: with our linear layers, and our attention in place of sdpa; see load_target.

    Where there is no compiler for them, or the model is another with them, it keeps torch's, and one line says why.
    Raises BadInput where it fails without them too.
    """
    if kernels != "torch":
        try:
            use_own_kernels(model, kernels, own_attention, threads, cache)
            return _checked(model, check, trained)
        except (BadInput, RuntimeError, OSError) as error:
            log.warning("model.kernels=%s: torch's go on (%s)", kernels, first_line(error))
            use_torchs_kernels(model)
    thread_counts.for_torch(threads)
    return _checked(model, check, trained)


def _checked(model: Any, check: SelfCheck, trained: bool) -> EagerTarget:
    target = EagerTarget(model, trained=trained, check=check)
    try:
        target.self_check()
    except BadInput:
        target.release()
        raise
    return target


def with_float32_head(target: EagerTarget) -> EagerTarget:
    """The same model with an output projection in float32."""
    target.release()
    model, head = target.model, target.output_projection
    if isinstance(head, PackedLinear):
        head.out_dtype = torch.float32  # its sums are float32 already
    else:
        model.set_output_embeddings(Float32Head(head))
    return EagerTarget(model, check=target.check)


def use_own_kernels(
    model: Any, kernels: str, attention: bool = True, threads: int | None = None, cache: str | None = None
) -> None:
    """Our linear layers where the product stays the same, and our attention in place of sdpa.

    cache: the folder that keeps their code and how fast they are here; None: cache_folder().
    Raises RuntimeError or OSError where they cannot be compiled.
    """
    folder = cache_folder() if cache is None else Path(cache).expanduser()
    ops.keep_compiled_code(folder / "inductor")
    ops.load()
    if getattr(model, "hf_quantizer", None) is None:
        replace_linears(model)
    if packed_layers(model):
        thread_counts.for_own_kernels(threads)
    else:
        thread_counts.for_torch(threads)
    file = folder / "kernels" / f"{ops.fingerprint()}.json"
    _kernel_times.update(_read_kernel_times(file))
    if choose_kernels(model, _kernel_times, exact=kernels == "exact"):
        try:
            write_text(file, json.dumps(_kernel_times, indent=1) + "\n", "paths.cache")
        except BadInput as error:  # the next start measures again
            log.warning("%s", error)
    if attention and model.config._attn_implementation == "sdpa":
        register_attention()
        model.set_attn_implementation("tree")


def _read_kernel_times(file: Path) -> dict[str, Times]:
    """What a file of earlier measurements holds; nothing where it is missing, or not what this program wrote."""
    try:
        found = TypeAdapter(dict[str, Times]).validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return {}
    return {
        shape: times
        for shape, times in found.items()
        if times and times.keys() <= set(LINEAR_KERNELS) and all(len(each) == len(ROWS) for each in times.values())
    }


def use_torchs_kernels(model: Any) -> None:
    """Undo use_own_kernels."""
    restore_linears(model)
    if model.config._attn_implementation == "tree":
        model.set_attn_implementation("sdpa")


def checked_dtype(name: str, key: str) -> torch.dtype:
    """Raises BadInput, naming the key, for a dtype that models do not have."""
    found: torch.dtype = getattr(torch, checked(name, Dtype, key))
    return found


def checked_device(name: str, key: str) -> torch.device:
    """A processor, or a GPU, which is torch's current one from now on. Raises BadInput, naming the key."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", checked(name, str, key)):
        raise BadInput(key, f"{name!r} must be cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BadInput(key, f"{name} is asked for, but there is no such CUDA device; use {key}=cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)  # whoever asks for the memory of the GPU means this one
    return device


def _quiet() -> None:
    """No loading bars or advice between the harness's own lines."""
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def twin_of(model: PreTrainedModel) -> PreTrainedModel:
    """The model again, with modules, hooks and config of its own, over the same parameters: no memory is copied."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        return copy.deepcopy(model, shared)
    except Exception as error:  # what a library hung on the model may refuse to be copied
        problem = f"its modules cannot be copied ({type(error).__name__}: {first_line(error)})"
        raise BadInput("model", problem) from error


def twin_with_layers(model: PreTrainedModel, chosen: Sequence[int]) -> PreTrainedModel:
    """A twin that has only the layers of these numbers, from 0 on, and all that comes before and behind them.

    Raises BadInput for a model whose layers stand in no one list.
    """
    twin = twin_of(model)
    config = twin.config.get_text_config(decoder=True)
    for parent in twin.modules():
        for name, layers in parent.named_children():
            if isinstance(layers, torch.nn.ModuleList) and len(layers) == config.num_hidden_layers:
                setattr(parent, name, torch.nn.ModuleList(layers[number] for number in chosen))
                for row, layer in enumerate(getattr(parent, name)):
                    _renumber(layer, row)
                if kinds := getattr(config, "layer_types", None):
                    config.layer_types = [kinds[number] for number in chosen]
                config.num_hidden_layers = len(chosen)
                return twin
    raise BadInput("model", f"{type(model).__name__} has no list of its {config.num_hidden_layers} layers")


def _renumber(layer: torch.nn.Module, number: int) -> None:
    """Let a layer, and so its attention, use the KV cache's layer of this number."""
    for module in layer.modules():
        if hasattr(module, "layer_idx"):
            module.layer_idx = number  # type: ignore[assignment]
