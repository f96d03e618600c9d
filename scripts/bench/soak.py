"""Many clients on vLLM's server with a proposer, some of which misbehave: is each answer right, does memory stay?

    python -m scripts.bench.soak python=PROGRAM [KEY=VALUE ...]

    python=PROGRAM          the Python in whose environment vllm and hydra-core are installed
    proposer=aded_backoff   or vLLM's own ngram, or none: is it the engine itself that grows?
    datastore=FILE          of aded_backoff; by default the embedded corpus, built once
    minutes=5  clients=16  tokens=5 (num_speculative_tokens)  new_tokens=64  requests=32 (prompts)  context=2048
    break_every=10          seconds after which the next client closes its connection in the midst of an answer
    out=outputs/soak        the folder for soak.json

Takes the keys of `aded run` for model and benchmark too. A server without drafts answers each prompt once; then the
clients ask one with the proposer, over and over, and compare. One request in ten is malformed, and must be refused.
Latencies are those of summary.json; memory is what the server and its children have to themselves.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal
from urllib.error import HTTPError

import psutil

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import check_ours, write_outputs
from aded.settings import FilePath, Positive, Rate
from aded.shown import say
from scripts.bench.serving import latencies, options_of, served
from scripts.bench.vllm_server import Reply, Server, server

MALFORMED: list[dict[str, Any]] = [
    {"max_tokens": -1},
    {"temperature": "hot"},
    {"model": "another"},
    {"prompt": [1 << 40]},
    {"prompt": {}},
]
"""What takes the place of keys of a right request."""
MALFORMED_SHARE = 0.1
SAMPLES = 60
"""Of the memory."""


@dataclass
class SoakSettings:
    """See above."""

    python: str
    proposer: Literal["aded_backoff", "ngram", "none"] = "aded_backoff"
    datastore: str | None = None
    minutes: Rate = 5.0
    clients: Positive = 16
    tokens: Positive = 5
    new_tokens: Positive = 64
    requests: Positive = 32
    context: Positive = 2048
    break_every: Rate = 10.0
    out: FilePath = "outputs/soak"


@dataclass
class Soak:
    """What the clients saw. Its numbers change under `lock`."""

    replies: list[Reply] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, MB)."""
    over: bool = False
    """The time has passed: clients end with the answers that they wait for."""
    next_break: float = 0.0
    """When the next client is to close its connection."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, reply: Reply | None = None) -> None:
        with self.lock:
            self.counts[what] += 1
            self.replies += [reply] if reply else []

    def take_break(self, every: float) -> bool:
        """Is this client to close its connection now? The next one then is so many seconds later."""
        with self.lock:
            if monotonic() < self.next_break:
                return False
            self.next_break += every
            return True

    def growth(self) -> float | None:
        """Memory of the last fifth of the time over that of the second fifth; None before both."""
        if not self.memory:
            return None
        end = self.memory[-1][0]
        second = [mb for at, mb in self.memory if 0.2 * end <= at < 0.4 * end]
        last = [mb for at, mb in self.memory if at >= 0.8 * end]
        return max(last) / max(second) if second and last else None


def client(number: int, asked: Server, prompts: list[list[int]], right: list[str], soak: Soak, every: float) -> None:
    """Asks until the time has passed. every: seconds between two clients that break off."""
    draw = random.Random(number)
    while not soak.over:
        which, malformed = draw.randrange(len(prompts)), draw.random() < MALFORMED_SHARE
        try:
            if malformed:
                asked.reply(prompts[which], instead=draw.choice(MALFORMED))
                soak.count("malformed and answered")
            elif soak.take_break(every):
                asked.reply(prompts[which], pieces=2)
                soak.count("broken off")
            else:
                reply = asked.reply(prompts[which])
                soak.count("right" if reply.text == right[which] else "wrong", reply)
        except HTTPError as error:
            soak.count("malformed and refused" if malformed and 400 <= error.code < 500 else "failed")
        except (OSError, HTTPException):
            soak.count("failed")


def memory_of(pid: int) -> float:
    """MB of a process and its children. Raises BadInput where it has ended."""
    try:
        server_itself = psutil.Process(pid)
        found, children = server_itself.memory_full_info().uss, server_itself.children(recursive=True)
    except psutil.NoSuchProcess:
        raise BadInput("python", "the server has ended") from None
    for child in children:
        with suppress(psutil.NoSuchProcess):
            found += child.memory_full_info().uss
    return found / 1e6


def soaked(asked: Server, prompts: list[list[int]], right: list[str], settings: SoakSettings) -> Soak:
    began = monotonic()
    soak = Soak(next_break=began + settings.break_every)
    shared = (asked, prompts, right, soak, settings.break_every)
    threads = [
        threading.Thread(target=client, args=(number, *shared), daemon=True) for number in range(settings.clients)
    ]
    for thread in threads:
        thread.start()
    try:
        while (now := monotonic()) < began + 60 * settings.minutes:
            soak.memory.append((now - began, memory_of(asked.pid)))
            sleep(60 * settings.minutes / SAMPLES)
    finally:
        soak.over = True
    for thread in threads:
        thread.join()
    return soak


def run(overrides: list[str], settings: SoakSettings) -> None:
    out = Path(settings.out).expanduser()
    check_ours([out / "soak.json"], "out")
    here = served(overrides, settings.requests, settings.datastore, settings.context)
    options = [*here.options, "--max-num-seqs", str(settings.clients)]
    with server(settings.python, here.model, options, settings.new_tokens) as plain:
        right = [reply.text for reply in plain.ask(here.prompts, settings.clients)[0]]
    own = [] if settings.proposer == "none" else options_of(settings.proposer, here.datastore, settings.tokens)
    with server(settings.python, here.model, [*options, *own], settings.new_tokens) as asked:
        soak = soaked(asked, here.prompts, right, settings)
    measured, growth = latencies(soak.replies), soak.growth()
    for what, count in sorted(soak.counts.items()):
        say(f"{what}: {count}")
    for name, values in measured.items():
        say(f"{name}: p50 {values['p50']:.0f}, p95 {values['p95']:.0f}, p99 {values['p99']:.0f}")
    say(f"memory of the last fifth of the time over that of the second: {growth and round(growth, 3)}")
    said = {
        "settings": asdict(settings),
        "counts": soak.counts,
        "latencies": measured,
        "memory_growth": growth,
        "memory_mb": soak.memory,
    }
    write_outputs(out, {"soak.json": (json.dumps(said, indent=1) + "\n").encode()}, "out")
    say(f"numbers: {out / 'soak.json'}")


def main() -> None:
    run_command(run, SoakSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
