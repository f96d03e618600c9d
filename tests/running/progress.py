"""How the whole suite runs in two processes: what each takes, and what is printed meanwhile."""

from time import monotonic
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "backoff": ("aded/drafters/backoff/", "aded/drafters/hybrid", "[aded_backoff", "[hybrid", "[layered"),
    "trigram": ("aded/drafters/trigram/", "test_conformance.py"),
    "kernels": ("aded/kernels/",),
    "pages": ("docs/test_commands.py",),
}
"""Groups of tests by a part of their names. What takes long to compile begins, each group in one process, so that the
other finds it compiled."""


def group_of(test: str) -> str:
    """A group's name, or the test's file: what a file sets up is set up in one process."""
    found = (name for name, parts in TOGETHER.items() if any(part in test for part in parts))
    return next(found, test.partition("::")[0])


def place_of(item: pytest.Item) -> int:
    return [*TOGETHER, group_of(item.nodeid)].index(group_of(item.nodeid))


class Groups(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


class Progress:
    """A line for each tenth of the tests, in place of a dot for each test."""

    def __init__(self, config: pytest.Config) -> None:
        self.start, self.ended, self.failed = monotonic(), 0, 0
        config.option.loadscopereorder = False  # it would begin with the files of most tests

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Groups:
        return Groups(config, log)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return None if report.failed else (report.outcome if report.when == "call" or report.skipped else "", "", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += report.failed

    def pytest_runtest_logfinish(self) -> None:
        before, self.ended = self.ended, self.ended + 1
        total = self.session.testscollected
        if self.ended * 10 // total > before * 10 // total:
            line = f"{self.ended} of {total} tests, {self.failed} failed, {monotonic() - self.start:.0f} s"
            self.session.config.get_terminal_writer().line(line)
