"""A replay beside a serving engine's own counts: the tokens that a step would yield at each position of an answer.

    python -m scripts.results.check_engine FILE [KEY=VALUE ...]

    FILE       JSON lines: prompt and generated, token ids, and for each token of generated the engine's count
    counts     the key of these counts; ngram
    method     a method that reads tokens alone; prompt_lookup
    settings   those that differ from its config; by default vLLM's n-gram drafting of 20 tokens, as in
               SpecDecode-Bench (arXiv 2601.11580): '{budget: 20, max_ngram: 7, min_ngram: 3}'

The method drafts at every position, so each difference is one draft's and not of those before. Engines go on drafting
behind the token that ends an answer, where no replay can follow: such positions are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import Field

import aded
from aded.config.command_line import run_command
from aded.core.drafter import Drafter
from aded.core.sampler import accepted_path
from aded.errors import BadInput
from aded.files.json_lines import LINE, json_lines, typed
from aded.settings import Text
from aded.shown import say

FILE_KEY = "FILE"
FORM = "prompt and generated (token ids) and as many counts as generated tokens"
Token = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


@dataclass
class CheckEngineSettings:
    """See above."""

    counts: Text = "ngram"
    method: Text = "prompt_lookup"
    settings: dict[str, Any] = field(default_factory=lambda: {"budget": 20, "max_ngram": 7, "min_ngram": 3})


@dataclass(frozen=True)
class CountedAnswer:
    """A line of the file."""

    __pydantic_config__ = LINE
    prompt: Annotated[tuple[Token, ...], Field(min_length=1)]
    generated: tuple[Token, ...]
    counts: tuple[Count, ...]


@dataclass
class Comparison:
    """Of all answers. Positions at the end are those at which the engine counted tokens behind the answer's last."""

    answers: int = 0
    positions: int = 0
    equal: int = 0
    more: int = 0
    fewer: int = 0
    different_at_the_end: int = 0
    steps: int = 0
    engine_steps: int = 0

    def add(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        """Of one answer, both int64 [tokens]."""
        left = np.arange(len(ours), 0, -1)
        at_the_end = (theirs > left) & (ours != theirs)
        self.answers += 1
        self.positions += len(ours)
        self.equal += int((ours == theirs).sum())
        self.more += int((ours > theirs).sum())
        self.fewer += int(((ours < theirs) & ~at_the_end).sum())
        self.different_at_the_end += int(at_the_end.sum())
        self.steps += count_steps(ours)
        self.engine_steps += count_steps(theirs)

    def __str__(self) -> str:
        ours, theirs = (self.positions / max(1, steps) for steps in (self.steps, self.engine_steps))
        return (
            f"{self.answers} answers, {self.positions} positions: "
            f"{self.equal} equal, {self.more} where the replay accepts more, {self.fewer} fewer, "
            f"{self.different_at_the_end} where the engine drafts behind the answer's end\n"
            f"mean accepted tokens: replayed {ours:.4f}, the engine's {theirs:.4f}"
        )


def answers_of(path: str, counts: str) -> Iterator[CountedAnswer]:
    """Raises BadInput."""
    for where, row in json_lines(path, FILE_KEY):
        answer: CountedAnswer = typed({**row, "counts": row.get(counts)}, CountedAnswer, FILE_KEY, where, FORM)
        if len(answer.counts) != len(answer.generated):
            raise BadInput(FILE_KEY, f"{where} has {len(answer.counts)} counts; it must have {FORM}")
        yield answer


def counts_at_each_position(drafter: Drafter, prompt: Sequence[int], generated: Sequence[int]) -> np.ndarray:
    """int64 [tokens]: what a step from each position would yield, of an answer that is known."""
    text, rest = np.array([*prompt, *generated], np.int64), [*generated, -1]
    found = np.empty(len(generated), np.int64)
    drafter.begin(text[: len(prompt)])
    for position in range(len(generated)):
        tree = drafter.draft(text[: len(prompt) + position])
        tree = tree.up_to_depth(len(generated) - position)
        depths = tree.depths
        path, _ = accepted_path(tree, lambda node: rest[position + int(depths[node])])  # noqa: B023 - called at once
        found[position] = len(path)
    drafter.end()
    return found


def count_steps(counts: np.ndarray) -> int:
    """Steps of an answer whose every step goes as far as it can."""
    position = steps = 0
    while position < len(counts):
        position += int(counts[position])
        steps += 1
    return steps


def run(files: list[str], settings: CheckEngineSettings) -> None:
    if len(files) != 1:
        raise BadInput(FILE_KEY, "name one file of answers with an engine's counts")
    if refused := settings.settings.keys() & {"name", "cost"}:
        raise BadInput(f"settings.{refused.pop()}", "is no setting of a method here; leave it out")
    drafter, comparison = aded.drafter(settings.method, cost="none", **settings.settings), Comparison()
    for answer in answers_of(files[0], settings.counts):
        ours = counts_at_each_position(drafter, answer.prompt, answer.generated)
        comparison.add(ours, np.array(answer.counts))
    say(comparison)


def main() -> None:
    run_command(run, CheckEngineSettings, __doc__ or "")


if __name__ == "__main__":
    main()
