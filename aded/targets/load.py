"""Loads a target and its tokenizer: a Hub id, a local folder, or the embedded default model."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from aded.errors import BadInput
from aded.files.embedded_model import EMBEDDED, embedded_model
from aded.files.hub import pretrained
from aded.files.tokenizer import tokenizer_of
from aded.kernels import threads as thread_counts
from aded.kernels.attention import register as register_attention
from aded.kernels.linear import Bf16Linear, replace_linears, restore_linears
from aded.settings import Count, FilePath
from aded.targets.eager import EagerTarget, eos_token_ids
from aded.targets.loaded import Loaded
from aded.targets.self_check import SelfCheck

log = logging.getLogger(__name__)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


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


def load_target(
    path: FilePath,
    *,
    dtype: str = "bfloat16",
    device: str = "cpu",
    cache: str = "~/.cache/aded",
    revision: str | None = None,
    device_map: str | dict[str, Any] | None = None,
    attention: str | None = None,
    head: str = "model",
    kernels: str = "auto",
    threads: Count | None = None,
) -> Loaded:
    """Load model and tokenizer with the ordinary `from_pretrained`. Raises BadInput naming the key.

    path: a Hub id, a folder, or `embedded`.
    attention: transformers' attn_implementation; None: sdpa where the model has it.
    head: `model`, or `float32` for an output projection in float32.
    kernels: `auto` for our linear layers and attention on processors, where they are faster, or `torch`.
    threads: of the forward pass on a processor; None: one per core.
    """
    number = checked_dtype(dtype)
    if head not in ("model", "float32"):
        raise BadInput("model.head", f"{head!r} must be model or float32")
    if kernels not in ("auto", "torch"):
        raise BadInput("model.kernels", f"{kernels!r} must be auto or torch")
    placed = checked_device(device)
    _quiet()
    folder = str(embedded_model(Path(cache).expanduser())) if path == EMBEDDED else path
    options: dict[str, Any] = {"dtype": number, "revision": revision or "main"}
    if attention:
        options["attn_implementation"] = attention
    if device_map:
        options["device_map"] = device_map
    tokenizer = tokenizer_of(folder, "model.path", revision=options["revision"])
    model: Any = pretrained(AutoModelForCausalLM, folder, **options)
    if not device_map:
        model = model.to(placed)
    if placed.type == "cpu":
        # Weights mapped from safetensors decode slower than the same weights in anonymous memory.
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        model.tie_weights()
    check = SelfCheck(model)
    use_own = placed.type == "cpu" and kernels == "auto"
    target = checked_target(model, check, own_kernels=use_own, own_attention=use_own and attention is None)
    if head == "float32" and number != torch.float32:
        target = with_float32_head(target)
    if any(isinstance(module, Bf16Linear) for module in model.modules()):
        thread_counts.use_own_kernels(threads)
    else:
        thread_counts.use_torch(threads)
    return Loaded(target, tokenizer, eos_token_ids(model))


def checked_target(
    model: Any, check: SelfCheck, *, own_kernels: bool, own_attention: bool, trained: bool = True
) -> EagerTarget:
    """A target that passed `check`: with our linear layers where they are faster, and our attention in place of sdpa.

    Where the model is another with them, it keeps torch's, and one line says why. Raises BadInput where it fails
    without them too.
    """
    if own_kernels:
        use_own_kernels(model, own_attention)
        target = EagerTarget(model, trained=trained, check=check)
        try:
            target.self_check()
        except BadInput as error:
            log.warning("model.kernels=auto: torch's go on (%s)", error)
            target.release()
            restore_linears(model)
            if model.config._attn_implementation == "tree":
                model.set_attn_implementation("sdpa")
        else:
            return target
    target = EagerTarget(model, trained=trained, check=check)
    target.self_check()
    return target


def with_float32_head(target: EagerTarget) -> EagerTarget:
    """The same model with an output projection in float32."""
    target.release()
    model, head = target.model, target.output_projection
    if isinstance(head, Bf16Linear):
        head.out_dtype = torch.float32  # its sums are float32 already
    else:
        model.set_output_embeddings(Float32Head(head))
    return EagerTarget(model, check=target.check)


def use_own_kernels(model: Any, attention: bool = True) -> None:
    """Our linear layers where they are faster, and our attention in place of sdpa."""
    if getattr(model, "hf_quantizer", None) is None:
        replace_linears(model)
    if attention and model.config._attn_implementation == "sdpa":
        register_attention()
        model.set_attn_implementation("tree")


def checked_dtype(name: str) -> torch.dtype:
    """Raises BadInput for a dtype that models do not have."""
    if name not in DTYPES:
        raise BadInput("model.dtype", f"{name!r} must be one of {', '.join(DTYPES)}")
    return DTYPES[name]


def checked_device(name: str) -> torch.device:
    """Raises BadInput for a device that is none, or is not there."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", name):
        raise BadInput("model.device", f"{name!r} must be cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise BadInput("model.device", f"{name} is asked for, but there is no such CUDA device; use model.device=cpu")
    return device


def _quiet() -> None:
    """No loading bars or advice between the harness's own lines."""
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
