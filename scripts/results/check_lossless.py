"""Whether a method is lossless: its greedy float32 tokens against those of transformers' `model.generate`.

    python -m scripts.results.check_lossless [method=aded] [benchmark=human_eval] [benchmark.limit=N]

Takes the keys of `aded run`. The reference is the model as transformers loads it, with none of the harness's kernels.
Exit code 0: all answers are equal; 1: some differ, and each is named.
"""

from __future__ import annotations

import sys

import torch
from omegaconf import DictConfig
from tqdm import tqdm

from aded.bench.run import build_drafter, checked_config, load_model, load_reference
from aded.config.command_line import NoSettings, compose_config, run_command
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.errors import BadInput
from aded.shown import say
from aded.targets.eager import EagerTarget


def differing(cfg: DictConfig) -> list[str]:
    """Ids of the questions whose first answer differs from generate's."""
    if cfg.model.get("answers") is not None:
        raise BadInput("model", "recorded answers cannot be compared with model.generate; name a model")
    config = checked_config(cfg)
    loaded = load_model(config)
    drafter, reference = build_drafter(config, loaded), load_reference(config).target
    assert isinstance(reference, EagerTarget)
    limit = cfg.benchmark.max_new_tokens
    differ = []
    prompts = config.prompts(loaded.tokenizer)
    for question, prompt in tqdm(prompts.items(), cfg.method.name, disable=not sys.stderr.isatty()):
        answer = decode(
            loaded.target,
            drafter,
            prompt,
            Greedy(),
            max_new_tokens=limit,
            eos_token_ids=loaded.eos_token_ids,
        )
        ids = torch.from_numpy(prompt)[None].to(reference.device)
        # A model's own generation config may hold a penalty, which this loop has not.
        generated = reference.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            repetition_penalty=1.0,
            max_new_tokens=limit,
        )
        if generated[0, len(prompt) :].tolist() != answer.token_ids:
            differ.append(question)
    return differ


def run(overrides: list[str], settings: NoSettings) -> None:
    cfg = compose_config(["model.dtype=float32", "benchmark.max_new_tokens=64", *overrides])
    differ = differing(cfg)
    for question in differ:
        say(f"{question}: differs from model.generate")
    say(f"{cfg.method.name}, {cfg.model.name}, {cfg.model.dtype}: {len(differ)} answers differ from model.generate")
    sys.exit(1 if differ else 0)


def main() -> None:
    run_command(run, NoSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
