"""One hostile text through every medium."""

import logging
from pathlib import Path

import pytest

from aded.errors import BadInput
from aded.settings import PlainName, checked
from aded.shown import in_csv, in_latex, in_markdown, prose, say, say_of_error, show_log, warn

LETTERS = "é 漢 عرب <b>|`&`[a](b) ![c][d] [e]: __f__ *g* $x$ ~h~"
HOSTILE = f"\x1b[2J\x9b\x1b]8;;https://me:pa55@host\a{LETTERS} \u202e\u200f\ud800\r- i www.j"


def test_a_terminal_gets_no_escape_and_no_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("handlers", []), ("level", logging.WARNING)):
        monkeypatch.setattr(logging.getLogger(), name, value)
    show_log()
    for way in (say, warn, logging.warning, lambda text: say_of_error(ValueError, ValueError(text), None)):
        way(f"{HOSTILE} {Path(HOSTILE)}")
        (text,) = filter(None, capsys.readouterr())
        assert text.removesuffix("\n").isprintable()
        assert LETTERS in text
        assert "pa55" not in text
    assert not [one for one in "\x1b\x9b\a\u202e\ud800\r" if one in prose(HOSTILE)]


def test_other_media_show_it_and_plain_names_stay() -> None:
    assert (in_markdown(HOSTILE) + in_latex(HOSTILE)).isprintable()
    raw = ("<", "|", "`", "](", "][", "]:", "__", "*g*", "$", "~", "://", "www.")
    assert not [one for one in raw if one in in_markdown(HOSTILE)]
    honest = "aded_backoff (budget=16, c1=0.5) [1.10, 1.30]¹ 95 %: a/*/b"
    assert in_markdown(honest) == honest
    assert all(in_csv(f"{first}cmd()").startswith("'") for first in "=+-@\t\r\n＝")
    assert [*map(in_csv, ("-1.5%", "+2e3", "–", -1.5, None))] == ["-1.5%", "+2e3", "–", -1.5, None]


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\x9b", "a\n", "a\u202eb", "${oc.env:HOME}", "a${x}"])
def test_a_name_of_a_folder_is_plain_and_half_a_password_is_not_shown(name: str) -> None:
    with pytest.raises(BadInput, match="controls"):
        checked(name, PlainName, "model.name")
    with pytest.raises(BadInput, match=r"https://\*\*\*@host"):
        checked(f"https://me:{'pa55' * 20}@host", int, "key")
