"""The accept-length half of Table 1 and the ablations, from recorded answers: tables, and the paper's figures.

    python -m scripts.results.recorded [ANSWERS corpus=FILE tokenizer=NAME_OR_DIR] [KEY=VALUE ...]

    ANSWERS     a folder with BENCHMARK/MODEL.jsonl, the answers of each model, and BENCHMARK/question.jsonl where the
                benchmark needs it; benchmarks that conf/benchmark does not know are skipped. Without it, corpus and
                tokenizer, what the committed results were made from is fetched (docs/sources.md)
    corpus      JSON lines, as datastore.build corpus=jsonl reads them
    tokenizer   that of the models
    out         where one folder per table goes, and a README.md with the command; results/recorded
    jobs        sweeps at a time; 2
    ablate      the answers for the ablations; the smallest file, and Vicuna-7B's to MT-Bench where all is fetched
    small       rows of the small corpus of table 2; 10000
    mirror      a folder or URL that has the raw files of what is fetched

Records and datastores go to a folder of outputs/recorded for these files. Started again, the command goes on where it
was.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

from aded.config.command_line import CONF, compose_config, run_command
from aded.errors import BadInput
from aded.files.atomic import check_outputs, write_text
from aded.identity import files_fingerprint, sha256
from aded.records.finished_runs import read_runs
from aded.report.lines import lines_of
from aded.report.paper import row_by_row
from aded.report.published import read_published
from aded.settings import Positive
from aded.shown import say, show_log, warn
from datastore.sources.fetching import fetch

RECORDS = Path("outputs/recorded")
TABLE_1 = "table1_recorded"
LEARNING = ("aded", "aded_best_first", "aded_backoff")
"""Those of table 1 that learn: cold and session."""
BUDGET = 64
"""Drafted nodes per step of those, as in the paper; prompt_lookup and rest have their usual ones."""
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
DRAWN = ("node_budget", "fig7", "fig6", "fig4")
"""Those of them that are drawn: the paper's figures, and what more nodes bring."""
CAUSES = ("original", "table2_corpus")
"""Those of them that explain differences from the paper: of all answers, the others of one model's."""
TEMPLATES = {"vicuna": "vicuna_v1.1", "llama-2": "llama-2", "codellama": "llama-2"}
"""How the conversations of a model began, by how the names of its files do."""
QUESTIONS = ("mt_bench_questions", "alpaca_questions", "spec_bench_questions")
ANSWERS = (
    "alpaca_llama_2_7b",
    "alpaca_vicuna_7b",
    "human_eval_codellama_7b",
    "mt_bench_vicuna_33b",
    "mt_bench_vicuna_7b",
    "spec_bench_vicuna_7b",
)
"""The sources of conf/source/ behind the committed results."""
ABLATED = "mt_bench_vicuna_7b"
# One thread each: sweeps run side by side.
ALONE = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@dataclass
class ResultsSettings:
    """See above."""

    corpus: str | None = None
    tokenizer: str | None = None
    out: str = "results/recorded"
    jobs: Positive = 2
    ablate: str | None = None
    small: Positive = 10_000
    mirror: str | None = None

    def __post_init__(self) -> None:
        for key in ("corpus", "ablate"):
            path = getattr(self, key)
            if path and not Path(path).is_file():
                raise BadInput(key, f"{path} is no file")


@dataclass(frozen=True)
class Sources:
    """What everything is made from."""

    answers: tuple[Path, ...]
    ablate: Path
    corpus: Path
    tokenizer: str
    small: int

    @cached_property
    def records(self) -> Path:
        """The folder for runs and datastores; other sources have another."""
        files = files_fingerprint([str(path) for path in (*self.answers, self.ablate, self.corpus)])
        return RECORDS / sha256(f"{files} {self.tokenizer} {self.small}")[:8]

    def datastore(self, kind: str) -> Path:
        """kind: ngrams, suffixes, or of the small corpus small.ngrams and small.suffixes."""
        return self.records / "datastores" / f"corpus.{kind}"

    def builds(self) -> Iterator[list[str]]:
        """The arguments of datastore.build for the files that are missing."""
        common = ["corpus=jsonl", f"corpus.path={self.corpus}", f"tokenizer={self.tokenizer}"]
        for size, limit in (("", []), ("small.", [f"corpus.limit={self.small}"])):
            ngrams, suffixes = self.datastore(f"{size}ngrams"), self.datastore(f"{size}suffixes")
            if not (ngrams.exists() and suffixes.exists()):
                yield [*common, f"out={ngrams}", f"suffixes={suffixes}", *limit]

    def sweeps(self) -> Iterator[list[str]]:
        """The arguments of `aded run` for each sweep: the ablations, then table 1."""
        for name in ABLATIONS:
            for file in self.answers if name in CAUSES else (self.ablate,):
                sizes = ("small.", "") if name == "table2_corpus" else ("",)
                yield self._sweep(name, file, *(self.datastore(f"{size}ngrams") for size in sizes))
                if name == "table2_corpus":
                    suffixes = (self.datastore(f"{size}suffixes") for size in sizes)
                    yield [*self._sweep(name, file, *suffixes), "method=rest"]
        for file in self.answers:
            table_1 = self._sweep(TABLE_1, file, self.datastore("ngrams"))
            yield [*table_1, "method=prompt_lookup"]
            scopes = ["method.adaptation=prompt,session", f"method.budget={BUDGET}"]
            yield [*table_1, f"method={','.join(LEARNING)}", *scopes]
            yield [*self._sweep(TABLE_1, file, self.datastore("suffixes")), "method=rest"]

    def _sweep(self, name: str, answers: Path, *datastores: Path) -> list[str]:
        questions = answers.with_name("question.jsonl")
        return [
            f"+experiment={name}",
            f"paths.output={self.records / name}",
            "progress=false",
            "model=recorded",
            f"model.answers={answers}",
            f"model.tokenizer={self.tokenizer}",
            f"benchmark={answers.parent.name}",
            f"model.template.name={template_of(answers)}",
            *([f"benchmark.question_file={questions}"] if questions.exists() else []),
            f"datastore.path={','.join(map(str, datastores))}",
        ]


def template_of(answers: Path) -> str:
    """The template by which the conversations of a model's answers began. Raises BadInput for a model without one."""
    for beginning, template in TEMPLATES.items():
        if answers.stem.lower().startswith(beginning):
            return template
    known = ", ".join(TEMPLATES)
    raise BadInput("ANSWERS", f"{answers} is of a model whose template is not known; names here begin with {known}")


def read_sources(folders: Sequence[str], settings: ResultsSettings) -> Sources:
    """What to make results from; folders: the command's plain arguments. Raises BadInput."""
    for key in ("corpus", "tokenizer"):
        if not getattr(settings, key):
            raise BadInput(key, f"is missing; python -m scripts.results.recorded ANSWERS {key}=...")
    if len(folders) != 1 or not Path(folders[0]).is_dir():
        raise BadInput("ANSWERS", "name one folder that holds BENCHMARK/MODEL.jsonl")
    found = []
    for folder in sorted(path for path in Path(folders[0]).iterdir() if path.is_dir()):
        files = sorted(path for path in folder.glob("*.jsonl") if path.name != "question.jsonl")
        if files and not (CONF / "benchmark" / f"{folder.name}.yaml").exists():
            warn(f"{folder}: {folder.name} is no benchmark of conf/benchmark; its answers are skipped")
        else:
            found += files
    for file in found:
        template_of(file)
    if not found:
        raise BadInput("ANSWERS", f"{folders[0]} holds no BENCHMARK/MODEL.jsonl of a benchmark in conf/benchmark")
    ablate = Path(settings.ablate) if settings.ablate else min(found, key=lambda path: path.stat().st_size)
    return Sources(tuple(found), ablate, Path(str(settings.corpus)), str(settings.tokenizer), settings.small)


def fetch_sources(settings: ResultsSettings) -> Sources:
    """What the committed results were made from, fetched unless it is there. Raises BadInput."""
    for key in ("corpus", "tokenizer"):
        if getattr(settings, key):
            raise BadInput("ANSWERS", f"is missing, and {key} is given; give all three, or none and all are fetched")
    show_log()
    out = Path(compose_config([], "fetch").source.out).expanduser()
    for name in QUESTIONS:
        fetch(name, out, settings.mirror)
    answers = {name: fetch(name, out, settings.mirror)[0] for name in ANSWERS}
    (corpus,) = fetch("chat_corpus", out, settings.mirror)
    tokenizer = fetch("llama_2_tokenizer", out, settings.mirror)[0].parent
    ablate = Path(settings.ablate) if settings.ablate else answers[ABLATED]
    return Sources(tuple(answers.values()), ablate, corpus, str(tokenizer), settings.small)


def call(verb: str, arguments: Sequence[str]) -> bool:
    """Run `aded VERB`; print its time, and its last line if it fails. Returns whether it succeeded."""
    began = perf_counter()
    command = [sys.executable, "-m", "aded", verb, *arguments]
    done = subprocess.run(command, env=os.environ | ALONE, capture_output=True, text=True, check=False)
    named = [one for one in arguments if one.startswith(("+experiment", "model.answers", "method", "out="))]
    say(f"{perf_counter() - began:5.0f} s  {verb} {' '.join(named)}")
    if done.returncode:
        warn("\n".join(done.stderr.strip().splitlines()[-1:]) or f"exit code {done.returncode}")
    return done.returncode == 0


def write_tables(name: str, records: Path, out: Path) -> bool:
    """The tables of one experiment's runs, and the plots of one that is drawn."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    verbs = ("tables", "plots") if name in DRAWN else ("tables",)
    return all([call(verb, [str(folder), str(records / name)]) for verb in verbs])


PREFACE = """# Results from recorded answers

Mean accepted tokens are exact; no model ran, so no model was timed. [Row by row](row_by_row.md) holds the paper's
tables against ours, with what corpus and original code explain of the difference. Each folder has

- `mean_accepted_tokens.md` (`.csv`): cold beside session, micro and macro, by category and position;
- `comparison_with_paper.md` (`.tex`, `.csv`): published figures beside ours;
- `summary.md` (`.tex`, `.csv`): every run with its settings.

The paper's figures and the node budget are drawn; `aded plots` draws others from the records in `outputs/recorded`.

```
python -m scripts.results.recorded ANSWERS corpus=CORPUS tokenizer=TOKENIZER{settings}
```

`ANSWERS/BENCHMARK/MODEL.jsonl` are FastChat's `model_answer` files of the models named (for HumanEval, human-eval's
`samples.jsonl`), with FastChat's `question.jsonl` beside them. `CORPUS` is a file of JSON lines, and `TOKENIZER` the
models' tokenizer, a Hub id or a folder. Without all three, it fetches what the committed results were made from.

Table 1, {causes} are of {answers}; the other ablations are of {ablate}.
"""


def readme(sources: Sources, out: Path) -> str:
    """What the folder contains, each experiment explained by its own yaml."""
    small = f" small={sources.small}" if sources.small != ResultsSettings.small else ""
    parts = [
        PREFACE.format(
            settings=f"{small} ablate=ANSWERS/{_named(sources.ablate)}.jsonl",
            answers=", ".join(map(_named, sources.answers)),
            ablate=_named(sources.ablate),
            causes=" and ".join(CAUSES),
        )
    ]
    for name in (TABLE_1, *ABLATIONS):
        plots = [f"[{path.stem}]({name}/{path.name})" for path in sorted((out / name).glob("*.png"))]
        tables = [
            f"[cold and session]({name}/mean_accepted_tokens.md)",
            f"[beside published figures]({name}/comparison_with_paper.md)",
            f"[every run]({name}/summary.md)",
        ]
        parts.append(f"## {name}\n\n{_explained(name)}\n{', '.join([*tables, *plots])}\n")
    return "\n".join(parts)


def _named(answers: Path) -> str:
    return f"{answers.parent.name}/{answers.stem}"


def _explained(experiment: str) -> str:
    """The comment at the head of the experiment's yaml: its text, and the commands in it as a block."""
    lines = (CONF / "experiment" / f"{experiment}.yaml").read_text().splitlines()[2:]
    comments = [line[2:] for line in lines if line.startswith("# ")]
    commands = [line for line in comments if line.startswith(("aded ", "python -m"))]
    text = " ".join(line for line in comments if line not in commands)
    return f"{text}\n" + ("\n```\n" + "\n".join(commands) + "\n```\n" if commands else "")


def run(folders: list[str], settings: ResultsSettings) -> None:
    out = Path(settings.out).expanduser()
    sources = read_sources(folders, settings) if folders else fetch_sources(settings)
    check_outputs([("out", out / "README.md")], [("corpus", sources.corpus), ("ablate", sources.ablate)])
    began = perf_counter()
    sources.datastore("ngrams").parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(settings.jobs) as pool:
        whole = all([*pool.map(lambda arguments: call("build", arguments), sources.builds())])
        whole &= all([*pool.map(lambda arguments: call("run", ["-m", *arguments]), sources.sweeps())])
        whole &= all([*pool.map(lambda name: write_tables(name, sources.records, out), (TABLE_1, *ABLATIONS))])
    write_text(out / "row_by_row.md", row_by_row(lines_of(read_runs([sources.records])), read_published()), "out")
    write_text(out / "README.md", readme(sources, out), "out")
    say(f"{(perf_counter() - began) / 60:.1f} minutes; results: {out / 'README.md'}")
    if not whole:
        warn("not everything succeeded, see above; start the same command again to go on")
        sys.exit(1)


def main() -> None:
    run_command(run, ResultsSettings, __doc__ or "")


if __name__ == "__main__":
    main()
