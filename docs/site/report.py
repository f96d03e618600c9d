"""The report that the site shows, of methods replayed on a pack: PYTHONPATH=. python docs/site/report.py FOLDER

Writes runs and report.html into FOLDER. Like `make replay` it needs no model, and a method that reads a corpus drafts
from the model's answers of another pack.
"""

from __future__ import annotations

import sys
from pathlib import Path

from aded.bench.progress import Progress
from aded.bench.run import checked_config, run
from aded.commands.report import NAME, write_report
from aded.config.command_line import compose_config
from aded.files.pack import read_pack
from datastore.ngrams import count_ngrams, write_ngrams
from scripts.results.measure import ORDER, as_corpus

PACKS = Path("results/packs")
ANSWERS, CORPUS = PACKS / "smollm2-human_eval", PACKS / "smollm2-mt_bench"
METHODS = ("prompt_lookup", "aded", "aded_best_first", "aded_backoff")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "mt_bench.ngrams"
    answers, header = as_corpus([read_pack(CORPUS, "corpus")])
    write_ngrams(corpus, count_ngrams(answers, ORDER, int(header["vocabulary"])), header)
    for method in METHODS:
        overrides = [
            "model=recorded",
            f"model.answers={ANSWERS}",
            f"method={method}",
            f"datastore.path={corpus}",
            "benchmark.limit=10",
            "record.trees=3",
            f"paths.output={folder}",
        ]
        run(checked_config(compose_config(overrides), overrides), Progress())
    write_report([folder], folder / NAME)


if __name__ == "__main__":
    main()
