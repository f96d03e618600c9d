"""The accept-length half of Table 1 and the ablations, from recorded answers, with their tables and plots:

    python -m scripts.recorded_results ANSWERS corpus=FILE tokenizer=NAME_OR_DIR [out=results/recorded] [jobs=2]
        [ablate=FILE] [small=10000]

ANSWERS/BENCHMARK/ holds the answers of each model, MODEL.jsonl, and question.jsonl where the benchmark needs it.
corpus: JSON lines (datastore.build corpus=jsonl); tokenizer: that of the models; out: one folder a table, and a
README.md with the command; jobs: sweeps at a time; ablate: the answers for the ablations, by default the smallest
file; small: rows of the corpus that table 2 sets against all of them. Records and datastores go to outputs/recorded;
started again, the command goes on where it was.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from aded.command_line import CONF, exit_with_error
from aded.errors import BadInput

RECORDS = Path("outputs/recorded")
TABLE_1 = "table1_recorded"
ABLATIONS = (
    "node_budget",
    "backoff_parts",
    "fig7",
    "fig6",
    "top_k",
    "original",
    "table2_corpus",
    "fig4",
    "ngram_order",
    "search",
)
"""Those of conf/experiment/ that need no model, the longest first."""
DEFAULTS = {"out": "results/recorded", "jobs": "2", "ablate": "", "small": "10000"}
# One thread each: sweeps run side by side.
ALONE = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True)
class Sources:
    """What everything is made from."""

    answers: tuple[Path, ...]
    ablate: Path
    corpus: Path
    tokenizer: str
    small: int

    def datastore(self, kind: str) -> Path:
        """kind: ngrams, suffixes, or small.ngrams. The name tells corpora apart."""
        name = f"{self.corpus.name.partition('.')[0]}-{self.corpus.stat().st_size}"
        return RECORDS / "datastores" / f"{name}.{kind.replace('small', f'first-{self.small}')}"

    def builds(self) -> Iterator[list[str]]:
        """The words of datastore.build for the files that are missing."""
        words = ["corpus=jsonl", f"corpus.path={self.corpus}", f"tokenizer={self.tokenizer}", "orders=[2,3,4,5]"]
        whole, suffixes, small = map(self.datastore, ("ngrams", "suffixes", "small.ngrams"))
        if not (whole.exists() and suffixes.exists()):
            yield [*words, f"out={whole}", f"suffixes={suffixes}"]
        if not small.exists():
            yield [*words, f"out={small}", f"corpus.limit={self.small}"]

    def sweeps(self) -> Iterator[list[str]]:
        """The words of aded.run for each sweep: the ablations, then table 1."""
        for name in ABLATIONS:
            paths = [self.datastore("small.ngrams")] if name == "table2_corpus" else []
            yield self._sweep(name, self.ablate, *paths, self.datastore("ngrams"))
        for file in self.answers:
            yield self._sweep(TABLE_1, file, self.datastore("ngrams"))
            yield [*self._sweep(TABLE_1, file, self.datastore("suffixes")), "method=rest"]

    def _sweep(self, name: str, answers: Path, *datastores: Path) -> list[str]:
        words = [f"+experiment={name}", f"paths.output={RECORDS / name}", "progress=false", "model=recorded"]
        words += [f"model.answers={answers}", f"model.tokenizer={self.tokenizer}", f"benchmark={answers.parent.name}"]
        # Conversations began as the models' own templates begin them.
        words.append(f"model.template.name={'llama-2' if 'llama' in answers.stem.lower() else 'vicuna_v1.1'}")
        questions = answers.with_name("question.jsonl")
        words += [f"benchmark.question_file={questions}"] if questions.exists() else []
        return [*words, f"datastore.path={','.join(map(str, datastores))}"]


def read_command_line(words: Sequence[str]) -> tuple[Sources, Path, int]:
    """What to make results from, the folder for them and how many sweeps to run at a time. Raises BadInput."""
    folders = [Path(word) for word in words if "=" not in word]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if unknown := sorted(given.keys() - {"corpus", "tokenizer", *DEFAULTS}):
        raise BadInput(unknown[0], f"no such key; there are corpus, tokenizer, {', '.join(DEFAULTS)}")
    if len(folders) != 1 or not folders[0].is_dir():
        raise BadInput("ANSWERS", "name one folder that holds BENCHMARK/MODEL.jsonl")
    found = tuple(sorted(path for path in folders[0].glob("*/*.jsonl") if path.name != "question.jsonl"))
    if not found:
        raise BadInput("ANSWERS", f"{folders[0]} holds no BENCHMARK/MODEL.jsonl")
    for path in found:
        if not (CONF / "benchmark" / f"{path.parent.name}.yaml").exists():
            raise BadInput("ANSWERS", f"{path}: {path.parent.name} is no benchmark of conf/benchmark")
    for key in ("corpus", "tokenizer"):
        if not given.get(key):
            raise BadInput(key, f"is missing; python -m scripts.recorded_results ANSWERS {key}=...")
    settings = DEFAULTS | given
    for key in ("jobs", "small"):
        if not settings[key].isdecimal() or int(settings[key]) < 1:
            raise BadInput(key, f"{settings[key]!r} must be a whole number, 1 or more")
    corpus = Path(given["corpus"])
    ablate = Path(settings["ablate"]) if settings["ablate"] else min(found, key=lambda path: path.stat().st_size)
    for key, path in (("corpus", corpus), ("ablate", ablate)):
        if not path.is_file():
            raise BadInput(key, f"{path} is no file")
    sources = Sources(found, ablate, corpus, given["tokenizer"], int(settings["small"]))
    return sources, Path(settings["out"]), int(settings["jobs"])


def call(module: str, words: Sequence[str]) -> bool:
    """Run `python -m module`, tell how long it took, and of a failure the last line; was it one?"""
    began = perf_counter()
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, env=os.environ | ALONE, capture_output=True, text=True, check=False)
    named = [word for word in words if word.startswith(("+experiment", "model.answers", "method", "out="))]
    print(f"{perf_counter() - began:5.0f} s  {module} {' '.join(named)}", flush=True)
    if done.returncode:
        print("\n".join(done.stderr.strip().splitlines()[-1:]) or f"exit code {done.returncode}", file=sys.stderr)
    return done.returncode == 0


def write_tables(name: str, out: Path) -> bool:
    """The tables and plots of one experiment's runs."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    return all([call(f"scripts.{script}", [str(folder), str(RECORDS / name)]) for script in ("tables", "plots")])


def readme(command: str, out: Path) -> str:
    """What the folder holds, each experiment explained by its own yaml."""
    parts = [
        "# Results from recorded answers\n",
        "Mean accepted tokens are exact; nobody's model was timed. `paper.md` (`.tex`, `.csv`) has published figures "
        "beside ours, `table.csv` all numbers of each run.\n",
        f"```\n{command}\n```\n",
    ]
    for name in (TABLE_1, *ABLATIONS):
        lines = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()
        about = " ".join(line[2:] for line in lines[2:] if line.startswith("# "))
        plots = ", ".join(f"[{path.stem}]({name}/{path.name})" for path in sorted((out / name).glob("*.png")))
        parts.append(f"## {name}\n\n{about}\n\n[Table]({name}/paper.md), [all numbers]({name}/table.csv); {plots}\n")
    return "\n".join(parts)


def main() -> None:
    try:
        sources, out, jobs = read_command_line(sys.argv[1:])
    except BadInput as error:
        exit_with_error(error)
    began = perf_counter()
    sources.datastore("ngrams").parent.mkdir(parents=True, exist_ok=True)
    try:
        with ThreadPoolExecutor(jobs) as pool:
            whole = all([*pool.map(lambda words: call("datastore.build", words), sources.builds())])
            whole &= all([*pool.map(lambda words: call("aded.run", ["-m", *words]), sources.sweeps())])
            whole &= all([*pool.map(lambda name: write_tables(name, out), (TABLE_1, *ABLATIONS))])
    except KeyboardInterrupt:
        print("interrupted; start the same command again to go on", file=sys.stderr)
        sys.exit(130)
    command = shlex.join(["python", "-m", "scripts.recorded_results", *sys.argv[1:]])
    (out / "README.md").write_text(readme(command, out), encoding="utf-8")
    print(f"{(perf_counter() - began) / 60:.1f} minutes; results: {out / 'README.md'}")
    if not whole:
        print("not everything succeeded, see above; start the same command again to go on", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
