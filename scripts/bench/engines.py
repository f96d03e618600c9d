"""Our engine beside others: tokens per second of the same model on the same prompts, with and without speculation.

    python -m scripts.bench.engines [KEY=VALUE ...]

    engines=[transformers]    others to compare with: transformers, openvino, llama_cpp
    python=PROGRAM            the Python in whose environment the others are installed; by default this one
    gguf=FILE                 the file of which the model was converted; known for the embedded and fetched ones
    weights=[f16]             what openvino and llama_cpp compute with: f16, q8_0, or own, the file as it is
    methods=[autoregressive,aded_backoff]   ours, on the compiled engine
    prompts=16  new_tokens=128

Takes the keys of `aded run` too. Ours and transformers have 16-bit weights. All decode greedily; the speculation of
the others is their prompt lookup. Engines take turns prompt by prompt, each in a process of its own, so that a busy
machine slows them alike. Seconds are those for `new_tokens` less those for one. `same` is the share of tokens that
equal ours of autoregressive decoding, up to the first that differs. The last line of the output is JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import gguf
import numpy as np
import torch
from omegaconf import DictConfig
from pydantic import Field
from tabulate import tabulate

from aded.bench.run import RunConfig, build_drafter, cache_of, checked_config, load_model
from aded.config.command_line import compose_config, run_command
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.errors import BadInput
from aded.files.atomic import whole_file
from aded.files.models.embedded_model import EMBEDDED, place_of, quantised_file
from aded.identity import file_fingerprint
from aded.kernels.threads import threads_for
from aded.records.environment import machine
from aded.settings import Positive
from aded.shown import say, warn
from datastore.sources.catalogue import names, read_source
from scripts.bench.other_engines.worker import timed


def write_gguf(quantised: Path, out: Path, weights: str) -> None:
    """Copy a GGUF file with other weights: f16, the numbers that our model has, or q8_0, those in 8 bits.

    quantised: the file whose 4-bit weights, widened and rounded to bfloat16, are our model's.
    """
    reader = gguf.GGUFReader(quantised)
    fields: dict[str, Any] = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    with whole_file(out) as file:
        writer = gguf.GGUFWriter(file.name, fields.pop("general.architecture").contents())
        for name, field in fields.items():
            if name != "general.file_type":
                inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(name, field.contents(), field.types[0], inner)
        writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{weights.upper()}"])
        for tensor in reader.tensors:
            numbers = gguf.dequantize(tensor.data, tensor.tensor_type)
            if numbers.ndim == 1:
                writer.add_tensor(tensor.name, numbers)
            elif weights == "f16":
                writer.add_tensor(tensor.name, half(numbers))
            else:
                kind = gguf.GGMLQuantizationType[weights.upper()]
                rounded = torch.from_numpy(np.array(numbers, np.float32)).bfloat16().float().numpy()
                writer.add_tensor(tensor.name, gguf.quantize(rounded, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def half(numbers: np.ndarray) -> np.ndarray:
    """float32, rounded to bfloat16 and then to float16."""
    return torch.from_numpy(np.array(numbers, np.float32)).bfloat16().half().numpy()


def weights_of(file: Path) -> str:
    """The name of the weights in a GGUF file, such as q4_k_m."""
    kind = int(gguf.GGUFReader(file).fields["general.file_type"].contents())
    return gguf.LlamaFileType(kind).name.removeprefix("MOSTLY_").lower()


WORKER = Path(__file__).parent / "other_engines" / "worker.py"
"""In a folder of its own, which Python puts before all others: `kernels` is also the name of a package."""
AUTOREGRESSIVE = "autoregressive"
Ask = Callable[[list[int]], dict[str, Any]]
"""Prompt -> {"ids": new tokens, "seconds": of decoding}, or {"error": why not}."""


@dataclass
class BenchEnginesSettings:
    """See above."""

    engines: list[Literal["transformers", "openvino", "llama_cpp"]] = field(default_factory=lambda: ["transformers"])
    python: str = sys.executable
    gguf: str | None = None
    weights: list[Literal["f16", "q8_0", "own"]] = field(default_factory=lambda: ["f16"])
    methods: list[str] = field(default_factory=lambda: [AUTOREGRESSIVE, "aded_backoff"])
    prompts: Positive = 16
    new_tokens: Annotated[int, Field(ge=2)] = 128

    def __post_init__(self) -> None:
        if AUTOREGRESSIVE not in self.methods:
            raise BadInput("methods", f"must have {AUTOREGRESSIVE}, which the others are compared with")


def ours(overrides: list[str], settings: BenchEnginesSettings) -> tuple[dict[str, Ask], list[list[int]]]:
    """(name -> our method, prompts)."""
    configs = {name: checked_config(compose_config([*overrides, f"method={name}"])) for name in settings.methods}
    first = next(iter(configs.values()))
    loaded = load_model(first)
    prompts = [each.tolist() for each in first.prompts(loaded.tokenizer).values()][: settings.prompts]

    def answer(config: RunConfig) -> Ask:
        drafter = build_drafter(config, loaded)

        def generate(ids: list[int], new_tokens: int, speculate: bool) -> list[int]:
            prompt = np.array(ids, np.int64)
            return decode(
                loaded.target, drafter, prompt, Greedy(), max_new_tokens=new_tokens, eos_token_ids=frozenset()
            ).token_ids

        return lambda ids: timed(generate, ids, settings.new_tokens, True)

    return {own_name(method): answer(config) for method, config in configs.items()}, prompts


def own_name(method: str) -> str:
    """Of one of our methods, in the table."""
    return f"ours, {method}"


@contextmanager
def other(
    engine: str, weights: str, model: str, threads: int, settings: BenchEnginesSettings
) -> Iterator[dict[str, Ask]]:
    """Name -> an engine in a process of its own, without and with its speculation."""
    python = sys.executable if engine == "transformers" else settings.python
    command = [python, str(WORKER), engine, model, str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BadInput("engines", f"{engine} does not run in {python}")

        def ask(ids: list[int], speculate: bool) -> dict[str, Any]:
            prompt = {"ids": ids, "new_tokens": settings.new_tokens, "speculate": speculate}
            with suppress(BrokenPipeError):
                print(json.dumps(prompt), file=process.stdin, flush=True)
            line = process.stdout.readline() if process.stdout else ""
            return json.loads(line or '{"error": "it ended"}')

        name = f"{engine}, {weights}"
        yield {name: lambda ids: ask(ids, False), f"{name}, prompt lookup": lambda ids: ask(ids, True)}
        with suppress(BrokenPipeError):
            process.stdin.close()


def models_for(engine: str, cfg: DictConfig, settings: BenchEnginesSettings) -> dict[str, str]:
    """Weights -> the model in the form that the engine reads. Raises BadInput."""
    if engine == "transformers":
        return {"bf16": place_of(cfg.model.path, "model.path", cache_of(cfg))}
    own = converted_from(cfg, settings)
    files = {}
    for weights in settings.weights:
        if weights == "own":
            files[weights_of(own)] = str(own)
            continue
        file = Path(cache_of(cfg)) / "models" / f"{own.stem}-{file_fingerprint(own)}-{weights}.gguf"
        if not file.exists():
            write_gguf(own, file, weights)
        files[weights] = str(file)
    return files


def converted_from(cfg: DictConfig, settings: BenchEnginesSettings) -> Path:
    """The GGUF file of which the model was converted. Raises BadInput."""
    if settings.gguf is not None:
        return Path(settings.gguf).expanduser()
    if cfg.model.path == EMBEDDED:
        return quantised_file()
    if cfg.model.path in names():
        return Path(cfg.paths.sources).expanduser() / "raw" / read_source(cfg.model.path).files[0].path
    raise BadInput("gguf", "must be given: it is known of the embedded model and of fetched ones only")


def compare(arms: dict[str, Ask], prompts: list[list[int]]) -> dict[str, dict[str, Any]]:
    """Name -> tokens per second and the rest of its row. Arms take turns.

    What warms them up is no prompt that counts: a session would know its answer.
    """
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
    for number, prompt in enumerate([prompts[0][::-1], *prompts]):
        for name in sorted(arms, reverse=number % 2 == 1):
            answer = arms[name](prompt)
            if number:
                answers[name].append(answer)
        warn(f"{number} of {len(prompts)} prompts")
    return {name: row(each, answers[own_name(AUTOREGRESSIVE)]) for name, each in answers.items()}


def row(answers: list[dict[str, Any]], plain: list[dict[str, Any]]) -> dict[str, Any]:
    """plain: our autoregressive decoding."""
    errors = [each["error"] for each in answers if "error" in each]
    if errors:
        return {"error": errors[0]}
    seconds, reference = (np.array([each["seconds"] for each in some]) for some in (answers, plain))
    tokens = np.array([len(each["ids"]) - 1 for each in answers])
    ratios = (tokens / seconds) / ((len(plain[0]["ids"]) - 1) / reference)
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
    same = [common(one["ids"], other["ids"]) / len(other["ids"]) for one, other in zip(answers, plain, strict=True)]
    return {
        "tokens_per_second": float(tokens.sum() / seconds.sum()),
        "ratio": middle,
        "low": low,
        "high": high,
        "same": float(np.mean(same)),
    }


def common(one: list[int], other: list[int]) -> int:
    """How many tokens agree before the first that differs."""
    return next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


def run(overrides: list[str], settings: BenchEnginesSettings) -> None:
    overrides = ["engine=compiled", "model.dtype=bfloat16", *overrides]
    cfg = compose_config(overrides)
    if "path" not in cfg.model:
        raise BadInput("model", "must be one with weights: engines are compared by running it")
    arms, prompts = ours(overrides, settings)
    found: dict[str, dict[str, Any]] = {}
    threads = threads_for(cfg.model.threads)
    with ExitStack() as processes:
        for engine in settings.engines:
            for weights, model in models_for(engine, cfg, settings).items():
                arms |= processes.enter_context(other(engine, weights, model, threads, settings))
        found = compare(arms, prompts)
    ranked = sorted(found.items(), key=lambda pair: -pair[1].get("tokens_per_second", 0))
    columns = ["tokens_per_second", "ratio", "low", "high", "same"]
    rows = [[name, *(each.get(key, each.get("error")) for key in columns)] for name, each in ranked]
    here = machine()
    say(f"{here.processor}, {threads} threads; {len(prompts)} prompts, {settings.new_tokens} tokens each")
    say(tabulate(rows, ["engine", "tokens/s", "ratio to autoregressive", "low", "high", "same"], floatfmt=".2f"))
    say(json.dumps({"machine": asdict(here), "torch": torch.__version__, "engines": found}))


def main() -> None:
    run_command(run, BenchEnginesSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
