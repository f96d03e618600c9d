"""One engine with one way of decoding. Reads prompts from stdin, writes answers to stdout, a line of JSON each.

    python worker.py ENGINE MODEL THREADS

It stands alone, since it runs in the environment of its engine, in which ours is not installed.
A prompt: {"ids": [..], "new_tokens": N, "speculate": true or false}. An answer: {"ids": [..], "seconds": ..}, greedy,
the seconds of decoding alone: those for N new tokens less those for one, which is the prompt's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from time import perf_counter
from typing import Any

DRAFT, NGRAM = 10, 3
"""Tokens of a prompt-lookup draft, and the longest n-gram that is looked up: transformers' own choice."""
Generate = Callable[[list[int], int, bool], list[int]]
"""(prompt, new tokens, with speculation) -> the new tokens."""


def transformers(model: str, threads: int) -> Generate:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    network: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, trust_remote_code=False).eval()
    network.generation_config.eos_token_id = None

    def generate(ids: list[int], new_tokens: int, speculate: bool) -> list[int]:
        prompt = torch.tensor([ids])
        options = {"prompt_lookup_num_tokens": DRAFT, "max_matching_ngram_size": NGRAM} if speculate else {}
        out = network.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            repetition_penalty=1.0,  # a model may come with another
            min_new_tokens=new_tokens if not speculate else None,
            max_new_tokens=new_tokens,
            pad_token_id=0,
            **options,
        )
        return out[0, len(ids) :].tolist()

    return generate


def openvino(model: str, threads: int) -> Generate:
    import numpy as np
    import openvino as ov
    import openvino_genai as genai

    options = {"INFERENCE_NUM_THREADS": threads}
    plain = genai.LLMPipeline(model, "CPU", **options)
    lookup = genai.LLMPipeline(model, "CPU", prompt_lookup=True, **options)

    def generate(ids: list[int], new_tokens: int, speculate: bool) -> list[int]:
        config = genai.GenerationConfig(max_new_tokens=new_tokens, ignore_eos=True, do_sample=False)
        if speculate:
            config.num_assistant_tokens, config.max_ngram_size = DRAFT, NGRAM
        tokens = ov.Tensor(np.array([ids], np.int64))
        return list((lookup if speculate else plain).generate(tokens, config).tokens[0])

    return generate


def llama_cpp(model: str, threads: int) -> Generate:
    import llama_cpp
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    options: Any = {"n_ctx": 4096, "n_threads": threads, "n_threads_batch": threads, "verbose": False}
    plain = llama_cpp.Llama(model, **options)
    draft = LlamaPromptLookupDecoding(max_ngram_size=NGRAM, num_pred_tokens=DRAFT)
    lookup = llama_cpp.Llama(model, draft_model=draft, logits_all=True, **options)

    def generate(ids: list[int], new_tokens: int, speculate: bool) -> list[int]:
        found: list[int] = []
        for token in (lookup if speculate else plain).generate(ids, top_k=1, temp=0.0, reset=True):
            found.append(token)
            if len(found) == new_tokens:
                return found
        return found

    return generate


ENGINES: dict[str, Callable[[str, int], Generate]] = {
    "transformers": transformers,
    "openvino": openvino,
    "llama_cpp": llama_cpp,
}


def timed(generate: Generate, ids: list[int], new_tokens: int, speculate: bool) -> dict[str, Any]:
    began = perf_counter()
    generate(ids, 1, speculate)
    first = perf_counter()
    found = generate(ids, new_tokens, speculate)
    return {"ids": found, "seconds": perf_counter() - first - (first - began)}


def main(engine: str, model: str, threads: str) -> None:
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # what libraries print is no answer
        generate = ENGINES[engine](model, int(threads))
        print("{}", file=out, flush=True)
        for line in sys.stdin:
            prompt = json.loads(line)
            try:
                answer = timed(generate, prompt["ids"], prompt["new_tokens"], prompt["speculate"])
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
