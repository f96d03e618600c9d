"""vLLM's part in tests of its proposer: rows of numpy arrays, lists of sampled tokens."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY, tiny_tokenizer

from aded.engines.vllm import Proposer

ROOM, ROWS = 256, 8


def served_files(folder: Path) -> SimpleNamespace:
    """A datastore and the tokenizer it was built for."""
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder / "model")
    stream = np.tile(np.arange(8, 24), 30)
    write_small_ngrams(folder / "corpus.ngrams", [stream], VOCABULARY, tokenizer=tokenizer)
    return SimpleNamespace(datastore=str(folder / "corpus.ngrams"), tokenizer=str(folder / "model"))


def config(files: SimpleNamespace, tokens: int = 5, room: int = ROOM, **settings: Any) -> Any:
    """The parts of vLLM's config that a proposer reads."""
    return SimpleNamespace(
        speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
        model_config=SimpleNamespace(max_model_len=room, tokenizer=files.tokenizer),
        additional_config={"aded": {"datastore": files.datastore, **settings}},
    )


class Batch:
    """vLLM's batch: it verifies drafts against the answer that a target would give, and moves rows as vLLM does."""

    def __init__(self, proposer: Proposer, room: int = ROOM) -> None:
        self.proposer, self.room = proposer, room
        self.tokens = np.zeros((ROWS, room), np.int32)
        self.lengths = np.zeros(ROWS, np.int32)
        self.rows: list[dict[str, Any]] = []
        self.finished: list[dict[str, Any]] = []

    def add(self, prompt: np.ndarray, answer: np.ndarray, chunks: int = 1) -> None:
        """A request whose prompt is read in `chunks` steps; no token is sampled before the last."""
        at = len(self.rows)
        self.tokens[at, : len(prompt)], self.lengths[at] = prompt, len(prompt)
        self.rows.append({"prompt": prompt, "answer": answer, "chunks": chunks, "out": [], "drafts": []})

    def step(self) -> list[list[int]]:
        """One step: verify the drafts, sample, ask the proposer, then let finished requests go."""
        sampled: list[list[int]] = []
        for at, row in enumerate(self.rows):
            row["chunks"] -= 1
            if row["chunks"] > 0:
                sampled.append([])
                continue
            rest: list[int] = row["answer"][len(row["out"]) :].tolist()
            new: list[int] = []
            for drafted in [*row["drafts"], None]:
                new.append(rest[len(new)])
                if drafted != new[-1] or len(new) == len(rest):
                    break
            row["out"] += new
            end = self.lengths[at] + len(new)
            self.tokens[at, self.lengths[at] : end], self.lengths[at] = new, end
            sampled.append(new)
        drafts = self.proposer.propose(sampled, self.lengths, self.tokens, slot_mappings=None)
        assert len(drafts) == len(self.rows)
        for at, (row, new) in enumerate(zip(self.rows, drafts, strict=True)):
            assert all(type(token) is int and 0 <= token < VOCABULARY for token in new)
            assert not new or self.lengths[at] + len(new) + 1 <= self.room
            row["drafts"] = new
        for at in range(len(self.rows) - 1, -1, -1):
            if len(self.rows[at]["out"]) == len(self.rows[at]["answer"]):
                self.finished.append(self.rows[at])
                self.move(len(self.rows) - 1, at)  # vLLM fills a hole with the last row
                self.rows.pop()
        return drafts

    def move(self, source: int, to: int) -> None:
        """Swap two rows; what a row held beyond its new length stays there, as in vLLM."""
        for array in (self.tokens, self.lengths):
            array[[source, to]] = array[[to, source]]
        self.rows[source], self.rows[to] = self.rows[to], self.rows[source]

    def run(self) -> None:
        while self.rows:
            self.step()
