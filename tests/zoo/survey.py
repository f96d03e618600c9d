"""Every model family of the installed transformers: exact, or refused in one line, on each engine.

python tests/zoo/survey.py [FAMILY ...] [--page docs/models/families.md]

A family is exact when trees that hold the right answer among others leave it the answer of its own `generate`, token
for token in float32: greedy and sampled, beyond each window, change of frequencies and buffer, to the context's end.
"""

import argparse
import copy
import logging
import os
import re
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

# Tiny models gain nothing from threads, and threads that wait for a busy core cost a hundred times the work.
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import transformers
from families import CONTEXT, names, tiny_family
from oracle import cases, first_difference

from aded.errors import BadInput
from aded.targets.compiled_target import CompiledCpuTarget
from aded.targets.load import checked_target
from aded.targets.self_check import SelfCheck


class Verdict(NamedTuple):
    """`eager`, `compiled`: exact, or what is wrong; `why`: the line of a refusal."""

    family: str
    model: str
    eager: str
    compiled: str
    why: str = ""

    @property
    def sound(self) -> bool:
        return {self.eager, self.compiled} <= {"exact", "refused", "eager goes on", "not built"}


def judge(name: str, *, compiled: bool = True) -> Verdict:
    try:
        model = tiny_family(name)
    except Exception as error:
        return Verdict(name, "-", "not built", "not built", _line(error))
    kind = type(model).__name__
    untouched = copy.deepcopy(model)
    try:
        check = SelfCheck(model)
        target = checked_target(model, check, "torch")
    except BadInput as error:
        return Verdict(name, kind, "refused", "refused", str(error).removeprefix("model: "))
    answers = list(cases(untouched, min(CONTEXT, target.context_length)))
    if not answers:
        return Verdict(name, kind, "no answer is clear of rounding", "-")
    plain = first_difference(target, answers)
    target.release()
    with_kernels = checked_target(model, check, "exact")
    wrong = plain or first_difference(with_kernels, answers)
    if not compiled or with_kernels.row_bias.modules:
        return Verdict(name, kind, wrong or "exact", "eager goes on")
    with_kernels.release()
    try:
        fast = CompiledCpuTarget(model, backend="eager", check=check)
        fast.self_check()
    except Exception as error:
        # As aded.targets.engine does: eager goes on, and must be what it was.
        again = checked_target(model, check, "torch")
        wrong = wrong or first_difference(again, answers)
        return Verdict(name, kind, wrong or "exact", "eager goes on", _line(error))
    return Verdict(name, kind, wrong or "exact", first_difference(fast, answers) or "exact")


def _line(error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {re.sub(r'/[^ ,]+/[^ ,]+, ', '', first)}"  # without this machine's files


def page(verdicts: list[Verdict]) -> str:
    """The Markdown page of all families."""
    count = Counter(verdict.eager for verdict in verdicts)
    rows = "".join(
        f"| `{one.family}` | {one.model} | {one.eager} | {one.compiled} | {one.why.replace('|', '/')} |\n"
        for one in verdicts
    )
    counted = {key.replace(" ", "_"): number for key, number in count.items()}
    return HEAD.format(version=transformers.__version__, **counted) + rows


HEAD = """# Model families

Every causal language model that transformers {version} can build from a tiny config, found by introspection;
`make zoo` tries them.

- **exact**: draft trees leave the family the answer of its own `generate`, token for token in float32. The answers
  are greedy and sampled; they go beyond each window, change of rotary frequencies and buffer, to the context's end.
- **refused**: the family cannot be exact, and one line says so when it is loaded.
- **compiled**: the step's graph, as a processor traces it; neither generated code nor a GPU's graphs.
- **eager goes on**: steps cannot be compiled. One line says so, and the eager engine decodes.

{exact} are exact, {refused} are refused; {not_built} did not build from a tiny config.

| family | class | eager | compiled | why |
| --- | --- | --- | --- | --- |
"""


def _quiet() -> None:
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    logging.disable(logging.WARNING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    verdicts = []
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), initializer=_quiet) as pool:
        for verdict in pool.map(judge, given.families or names()):
            verdicts.append(verdict)
            print(*verdict, sep="  ", flush=True)
    if given.page:
        given.page.write_text(page(verdicts))
    unsound = [verdict.family for verdict in verdicts if not verdict.sound]
    print(dict(Counter(verdict.eager for verdict in verdicts)))
    sys.exit(f"neither exact nor refused: {', '.join(unsound)}" if unsound else 0)


if __name__ == "__main__":
    main()
