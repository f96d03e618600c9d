"""Is a method lossless? Its greedy float32 tokens against `model.generate(do_sample=False)`, prompt by prompt.

The reference is the model as transformers loads it, with none of the harness's kernels.

    python -m scripts.check_lossless [method=aded] [benchmark=human_eval] [benchmark.limit=N]

Takes the keys of aded.run. Exit code 0: all equal; 1: some differ, each named.
"""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from tqdm import tqdm

from aded.command_line import CONF
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.run import build_method, load_benchmark, load_model


def differing(cfg: DictConfig) -> list[str]:
    """Ids of the questions whose first answer differs from generate's."""
    _, questions, max_new_tokens = load_benchmark(cfg.benchmark)
    cache = str(Path(cfg.paths.cache).expanduser())
    target, tokenizer = load_model(cfg, cache)
    drafter = build_method(cfg, target, tokenizer, cache)
    stock = DictConfig({**cfg, "model": {**cfg.model, "kernels": "torch"}})
    reference = load_model(stock, cache)[0].model
    template = hydra.utils.instantiate(cfg.model.template)
    differ = []
    for question in tqdm(questions, cfg.method.name, disable=not sys.stderr.isatty()):
        prompt = template.ids(tokenizer, question.turns[:1], [])
        answer = decode(target, drafter, np.array(prompt, np.int64), Greedy(), max_new_tokens=max_new_tokens)
        ids = torch.tensor([prompt], device=target.device)
        generated = reference.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_new_tokens
        )
        if generated[0, len(prompt) :].tolist() != answer.token_ids:
            differ.append(question.id)
    return differ


def main() -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        defaults = ["model.dtype=float32", "benchmark.max_new_tokens=64"]
        cfg = compose("config", [*defaults, *sys.argv[1:]])
    differ = differing(cfg)
    for question in differ:
        print(f"{question}: differs from model.generate")
    print(f"{cfg.method.name}, {cfg.model.name}, {cfg.model.dtype}: {len(differ)} answers differ from model.generate")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
