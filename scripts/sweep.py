"""Every run of a written-down sweep, with a live table and, in the end, the ranking.

    aded sweep EXPERIMENT [KEY=VALUE[,VALUE ...] ...]

EXPERIMENT is a name in conf/experiment. Runs what `aded run -m +experiment=EXPERIMENT` runs, one run
after another, then writes the tables (scripts.tables), the plots (scripts.plots) and the report (scripts.html_report)
into the experiment's folder. Started again, it leaves finished runs alone and continues the interrupted one.

Where the sweep has several methods, each run takes what its method has: method.adaptation=prompt,session sweeps over
the methods that learn, and of datastore.path=a.ngrams,a.suffixes each method gets the files of the kind it reads.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import product
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser

from aded.bench.build import KeptModel, RunConfig, checked_config
from aded.bench.progress import Progress, Shown
from aded.config.choices import names_of, read_choice
from aded.config.command_line import CONF, compose_config, name_pretrained, run_command
from aded.errors import BadInput
from aded.files.datastores.kinds import KINDS, kind_of
from aded.methods import datastore_kinds, with_whole_parts
from aded.records.finished_runs import read_runs
from aded.run import run as run_one
from scripts import NoSettings
from scripts.html_report import NAME, write_report
from scripts.plots import draw
from scripts.report.lines import lines_of
from scripts.report.tables.summary import ranking
from scripts.tables import write_tables


def combinations(experiment: str, overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each run: every combination of the values that the experiment and the overrides sweep over."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        whole = compose("config", [f"+experiment={experiment}"], return_hydra_config=True)
    parse = OverridesParser.create().parse_override
    given = {override.partition("=")[0]: parse(override) for override in name_pretrained(overrides)}
    swept = {key: parse(f"{key}={values}") for key, values in (whole.hydra.sweeper.params or {}).items()}
    choices = {
        key: [f"{key}={value}" for value in one.sweep_string_iterator()]
        if one.is_sweep_override()
        else [one.input_line or ""]
        for key, one in (swept | given).items()
    }
    several = {key for key, values in choices.items() if len(values) > 1}
    runs: list[tuple[str, ...]] = [*product(*choices.values())]
    if "method" in several:
        runs = _each_with_its_settings(runs, several)
    return [[f"+experiment={experiment}", *chosen] for chosen in runs]


def _each_with_its_settings(runs: Sequence[Sequence[str]], several: Set[str]) -> list[tuple[str, ...]]:
    """The runs, each without the swept settings that its method lacks, and with the kind of datastore that it reads.

    runs: the overrides of each. several: the keys that have several values. Raises BadInput for a method for which
    there is no datastore.
    """
    found: dict[tuple[str, ...], None] = {}
    without_file: dict[str, str] = {}
    with_file = set()
    for chosen in runs:
        values = {key: value for key, _, value in (one.partition("=") for one in chosen)}
        method, file = values["method"], values.get("datastore.path")
        if method not in names_of("method"):
            found[tuple(chosen)] = None
            continue
        config = read_choice("method", method)
        reads = datastore_kinds(with_whole_parts(config))
        if file is not None and reads and kind_of(file) in KINDS.keys() - reads:
            without_file[method] = " and of ".join(sorted(reads))
            continue
        with_file.add(method)
        lacks = {key for key in several if key.startswith("method.") and key.split(".")[1] not in config}
        lacks |= set() if reads else {"datastore.path"} & several
        found[tuple(one for one in chosen if one.partition("=")[0] not in lacks)] = None
    if missing := sorted(without_file.keys() - with_file):
        raise BadInput(
            "datastore.path",
            f"{missing[0]} reads a file of {without_file[missing[0]]}, and none is named; name one more, as in "
            "datastore.path=a.ngrams,a.suffixes, or other methods",
        )
    return list(found)


def run_all(configs: Sequence[RunConfig], label: str) -> None:
    """Carry out the runs, with one live table over all of them."""
    questions = [len(config.asked().chosen) for config in configs]
    progress = Shown(label, sum(questions)) if configs[0].settings["progress"] else Progress()
    load = KeptModel()
    try:
        for number, config in enumerate(configs):
            run_one(config, progress, load)
            progress.reach(sum(questions[: number + 1]))
    finally:
        progress.close()


def run(arguments: list[str], settings: NoSettings) -> None:
    names = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
    if not arguments or arguments[0] not in names:
        raise BadInput("EXPERIMENT", f"name one of {', '.join(names)}, as in: aded sweep cpu_default")
    runs = combinations(arguments[0], arguments[1:])
    configs = [checked_config(compose_config(overrides), overrides) for overrides in runs]
    run_all(configs, arguments[0])
    folder = Path(configs[0].settings["paths"]["output"]).expanduser()
    found = read_runs([folder])
    write_tables(found, [], folder)
    drawn = draw(lines_of(found), folder)
    write_report([folder], folder / NAME)
    print(ranking(found))
    print(f"report:  {folder / NAME}  (open it in a browser)")
    print(f"records: {folder}")
    tables = ("mean_accepted_tokens.md", "summary.md", "comparison_with_paper.md")
    print(f"tables:  {', '.join(str(folder / name) for name in tables)}")
    print(f"plots:   {', '.join(str(folder / name) + '.png' for name in drawn[:2])}, and {len(drawn[2:])} more")


def main() -> None:
    run_command(run, NoSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
