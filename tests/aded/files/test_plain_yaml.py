"""A record's config is plain data, whoever wrote it."""

from pathlib import Path

import pytest

from aded.files.plain_yaml import LARGEST
from aded.records.config import read_config


def test_what_could_be_resolved_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    (tmp_path / "config.yaml").write_text('a: ${oc.env:API_KEY}\nb: {c: "m${a}", d: [1.0e-05, no, ~]}\n')
    config = {"a": "${oc.env:API_KEY}", "b": {"c": "m${a}", "d": [1e-5, False, None]}}
    assert read_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1]\nb: &b [*a, *a]\n",
        "a: !!python/object/apply:os.getcwd []\n",
        "a: " + "1:" * 100_000 + "1\n",
        "a: 1" + "0" * 400 + "\n",
        "a: 0x" + "f" * 100_000 + "\n",
        "[" * 100_000,
        "- " * 100_000,
        "a: " + "x" * LARGEST,
        "a: 2020-01-01\n",
        "? [1]\n: 2\n",
        "a: 1\n---\nb: 2\n",
        "a: \0\n",
        "[1]\n",
        "",
    ],
)
def test_what_no_config_has_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"^{path}: no config[^\n]*$"):
        read_config(path)
