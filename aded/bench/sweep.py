"""A sweep: every combination of its values is a run, and each is checked before the first begins.

A run that fails costs no other. In this process runs share the model, and one table shows how far they are; a
launcher of Hydra's gives each run a process of its own.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence, Set
from itertools import product
from pathlib import Path
from typing import NamedTuple

from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig

from aded.bench.progress import Progress, Shown
from aded.bench.run import KeptModel, RunConfig, build_drafter, checked_config, make_drafter, place_of_record, run
from aded.config.choices import composed, names_of, read_choice
from aded.config.command_line import CONF, INPUT_ERRORS, compose_config, name_pretrained, of_files, one_line
from aded.config.methods import KINDS, datastore_kinds, kind_of, with_whole_parts
from aded.config.objects import Call
from aded.errors import BadInput, first_line, naming_the_extra
from aded.records.finished_runs import is_finished, read_run
from aded.records.summary import Summary
from aded.shown import warn

LAUNCHER, SWEEPER = "hydra/launcher", "hydra/sweeper"
Finished = Callable[[Summary, Path], None]
"""Is told of each run that ends well, and of its folder."""
Begin = Callable[[Sequence["PlannedRun"]], None]
"""Is told of the runs that can begin, before the first does; may raise BadInput."""


class PlannedRun(NamedTuple):
    """A run that can begin, by all that is known.

    name: what it has and others have not. overrides: what it is composed from.
    """

    name: str
    overrides: list[str]
    config: RunConfig
    questions: int
    folder: Path


class Failure(NamedTuple):
    """A run that failed, by what it has and others have not, and why."""

    run: str
    problem: str


class Sweep(NamedTuple):
    """What became of its runs."""

    planned: list[PlannedRun]
    """Those that could begin."""
    failures: list[Failure]
    """Those that could not, or failed."""

    @property
    def finished(self) -> list[PlannedRun]:
        failed = {one.run for one in self.failures}
        return [one for one in self.planned if one.name not in failed]

    def end(self) -> None:
        """Say on stderr which runs failed; exit code 1, or 2 where none is finished. Nothing, where all is well."""
        if not self.failures:
            return
        problems = {one.problem for one in self.failures}
        if not self.finished and len(problems) == 1:
            warn(*problems)
        else:
            runs = len(self.finished) + len(self.failures)
            others = "; the others are finished" if self.finished else ""
            warn(f"{len(self.failures)} of {runs} runs failed{others}:")
            for one in self.failures:
                warn(f"  {one.run}: {one.problem}")
        sys.exit(1 if self.finished else 2)


def sweep(arguments: Sequence[str], finished: Finished, begin: Begin = lambda _: None) -> Sweep:
    """Check all runs, and carry out those that can begin. Raises BadInput for what is wrong with the sweep itself.

    arguments: KEY=VALUE[,VALUE ...]; +experiment=NAME adds what the experiment sweeps over, and Hydra's own keys
        choose the launcher.
    """
    given = name_pretrained(arguments)
    hydra = _hydra_of(given)
    if hydra.runtime.choices[SWEEPER] != "basic" or hydra.sweeper.max_batch_size is not None:
        raise BadInput(SWEEPER, "a sweep has every combination of the values, and no other setting than its params")
    here = hydra.runtime.choices[LAUNCHER] == "basic"
    load = KeptModel()
    planned, failures = plan(combinations(arguments), load, here)
    for one in failures if planned else ():
        warn(f"{one.run} cannot run: {one.problem}")
    begin(planned)
    if planned and here:
        label = next((one.partition("=")[2] for one in given if _is_experiment(one)), "sweep")
        failures += _run_here(planned, load, label, finished)
    elif planned:
        failures += _launch(planned, [one for one in given if _is_hydras(one)], finished)
    return Sweep(planned, failures)


def _is_hydras(override: str) -> bool:
    return override.lstrip("+~").startswith(("hydra.", "hydra/"))


def _is_experiment(override: str) -> bool:
    return override.lstrip("+").startswith("experiment=")


def _hydra_of(given: Sequence[str]) -> DictConfig:
    """Hydra's own group of settings."""
    of_hydra = [one for one in given if _is_hydras(one) or _is_experiment(one)]
    group: DictConfig = composed("config", of_hydra, with_hydra=True).hydra
    return group


def combinations(arguments: Sequence[str]) -> list[list[str]]:
    """The overrides of each run: every combination of the values. arguments: of `sweep`."""
    given = name_pretrained(arguments)
    params = _hydra_of(given).sweeper.params or {}
    parse = OverridesParser.create().parse_override
    swept = {key: parse(f"{key}={values}") for key, values in params.items()}
    own = {override.partition("=")[0]: parse(override) for override in given if not _is_hydras(override)}
    first = {key: one for key, one in own.items() if _is_experiment(f"{key}=")}
    choices = {
        key: [f"{key}={value}" for value in one.sweep_string_iterator()]
        if one.is_sweep_override()
        else [one.input_line or ""]
        for key, one in (first | swept | own).items()
    }
    several = {key for key, values in choices.items() if len(values) > 1}
    runs: list[tuple[str, ...]] = [*product(*choices.values())]
    if "method" in several:
        runs = _each_with_its_settings(runs, several)
    return [list(chosen) for chosen in runs]


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


def plan(runs: Sequence[Sequence[str]], load: KeptModel, here: bool) -> tuple[list[PlannedRun], list[Failure]]:
    """Those runs that can begin, by all that can be known before, and those that cannot.

    runs: the overrides of each. load: keeps the model. here: are runs carried out in this process?
    """
    common = set[str]().union(*runs).intersection(*map(set, runs))
    planned, failures, check = list[PlannedRun](), list[Failure](), DrafterCheck(load, here)
    for overrides in runs:
        name = " ".join(one for one in overrides if one not in common) or "the run"
        try:
            with naming_the_extra():
                config = checked_config(compose_config(overrides), overrides)
                asked = config.asked()
                folder = place_of_record(config, asked).folder
                if not is_finished(folder):
                    check(config)
            planned.append(PlannedRun(name, list(overrides), config, len(asked.chosen), folder))
        except Exception as error:  # whatever one run lacks, the others go on
            failures.append(Failure(name, _problem(error)))
    return planned, failures


class DrafterCheck:
    """Makes each method once for each model, before the first run: what it needs may be missing.

    A launcher's runs load their models where they run, so here only recorded answers are loaded for it; and of
    several models, which memory may not hold, only the first.
    """

    def __init__(self, load: KeptModel, here: bool) -> None:
        self._load, self._here = load, here
        self._passed: list[tuple[str, Call]] = []
        self._refused: list[tuple[Call, Exception]] = []

    def __call__(self, config: RunConfig) -> None:
        """Raises BadInput, or what the classes raise that the config names."""
        model, values = config.model, config.settings["model"]
        has_weights = bool(values.get("path") or values.get("compute"))
        if (config.method.name, model) in self._passed or not self._load.is_free_for(config):
            return
        if has_weights and not self._here:
            return
        for refused, error in self._refused:
            if refused == model:
                raise error
        try:
            loaded = self._load(config)
        except Exception as error:
            self._refused.append((model, error))
            raise
        # Set up, some leave hooks in a model, which would slow down the runs of the others.
        (make_drafter if has_weights else build_drafter)(config, loaded)
        self._passed.append((config.method.name, model))


def _run_here(planned: Sequence[PlannedRun], load: KeptModel, label: str, finished: Finished) -> list[Failure]:
    """Carry out the runs in this process, with one live table over all of them."""
    failures, done = list[Failure](), 0
    shown = planned[0].config.settings["progress"]
    progress = Shown(label, sum(one.questions for one in planned)) if shown else Progress()
    try:
        for one in planned:
            try:
                with naming_the_extra():
                    summary, folder = run(one.config, progress, load)
            except Exception as error:  # whatever stops one run, the others go on
                failures.append(Failure(one.name, _problem(error)))
                progress.note(f"{one.name} failed: {failures[-1].problem}")
                load = KeptModel()  # whatever state it left the model in
            else:
                with progress.paused():
                    finished(summary, folder)
            done += one.questions
            progress.reach(done)
    finally:
        progress.close()
    return failures


def _launch(planned: Sequence[PlannedRun], of_hydra: Sequence[str], finished: Finished) -> list[Failure]:
    """Carry out the runs by a launcher of Hydra's, each in a process of its own. of_hydra: overrides of its keys."""
    common = [one for one in planned[0].overrides if all(one in each.overrides for each in planned)]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        whole = compose("config", [*of_hydra, *common], return_hydra_config=True)
        context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks())
        launcher = Plugins.instance().instantiate_launcher(context, run_in_process, whole)
        try:
            problems = [job.return_value for job in launcher.launch([one.overrides for one in planned], 0)]
        except Exception:  # a process was killed, and may have taken others with it
            problems = [None if is_finished(one.folder) else _launch_alone(launcher, one) for one in planned]
    failures = []
    for one, problem in zip(planned, problems, strict=True):
        if problem is None:
            finished(read_run(one.folder).summary, one.folder)
        else:
            failures.append(Failure(one.name, problem))
    return failures


def _launch_alone(launcher: Launcher, one: PlannedRun) -> str | None:
    """The problem, where the run fails."""
    try:
        problem: str | None = launcher.launch([one.overrides], 0)[0].return_value
    except Exception as error:
        return f"did not end ({first_line(error)})"
    return problem


def run_in_process(cfg: DictConfig) -> str | None:
    """A launcher's task: one run. Returns the problem, where it fails."""
    progress = Shown() if cfg.progress else Progress()
    try:
        with naming_the_extra():
            run(checked_config(cfg, HydraConfig.get().overrides.task), progress)
    except Exception as error:  # it is told where the sweep ends
        return _problem(error)
    finally:
        progress.close()
    return None


def _problem(error: Exception) -> str:
    """What is wrong, in one line; where it is no bad input, but a mistake in a program, stderr shows where."""
    if isinstance(error, INPUT_ERRORS):
        return one_line(error)
    if isinstance(error, OSError):
        return str(of_files(error))
    warn("".join(traceback.format_exception(error)).rstrip())
    return f"{type(error).__name__}: {first_line(error)}"
