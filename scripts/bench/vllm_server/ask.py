"""Asks a server with the openai client. Reads jobs from stdin, writes answers to stdout, a line of JSON each.

    python ask.py URL

It stands alone, since it runs in the environment of vLLM, where the client is a new one: FastChat wants an old one.
A job: {"prompts": [[token id, ..], ..], "new_tokens": N, "at_once": N}. Its answer: {"texts": [..], "seconds": ..},
greedy, of each prompt in turn.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from time import perf_counter
from typing import Any


def answer(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    model = client.models.list().data[0].id

    def ask(prompt: list[int]) -> str:
        done = client.completions.create(model=model, prompt=prompt, max_tokens=job["new_tokens"], temperature=0)
        text: str = done.choices[0].text
        return text

    began = perf_counter()
    with ThreadPoolExecutor(job["at_once"]) as pool:
        texts = list(pool.map(ask, job["prompts"]))
    return {"texts": texts, "seconds": perf_counter() - began}


def main(url: str) -> None:
    client = import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="none", timeout=600, max_retries=0)
    for line in sys.stdin:
        print(json.dumps(answer(client, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
