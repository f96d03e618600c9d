from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.commands.demo import DRAFTED, RESET
from aded.errors import BadInput
from scripts.results.terminal import ACCEPTED_COLOUR, COLUMNS, PLAIN_COLOUR, TerminalSettings, run, runs_of


@given(st.lists(st.tuples(st.text("ab <\n", max_size=200), st.text("ab &\n", max_size=9))))
def test_the_runs_are_the_pieces_in_their_colours(pieces: list[tuple[str, str]]) -> None:
    runs = list(runs_of([f"{DRAFTED}{drafted}{RESET}{own}" for drafted, own in pieces]))
    for number, texts in enumerate(pieces):
        for colour, text in zip((ACCEPTED_COLOUR, PLAIN_COLOUR), texts, strict=True):
            found = "".join(run.text for run in runs if run.piece == number and run.colour == colour)
            assert found == text.replace("\n", "")
    assert all(0 <= run.column < COLUMNS and run.column + len(run.text) <= COLUMNS for run in runs)
    assert runs == sorted(runs, key=lambda run: (run.line, run.column))


@pytest.mark.parametrize("text", ["", '{"a": 1}', '{"model": "m"}\n{"a": 1}'])
def test_a_file_that_is_no_session_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_text(text)
    with pytest.raises(BadInput, match=r"^session: .* is no session that record wrote"):
        run(["draw"], TerminalSettings(session=str(tmp_path / "session.jsonl"), out=str(tmp_path / "a.svg")))
