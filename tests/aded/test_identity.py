"""Files, tokenizers and runs are told apart by what they hold, wherever it lies."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers import pre_tokenizers

from aded import identity as module
from aded.identity import BLOCK, BLOCKS, file_fingerprint, files_fingerprint, run_id, tokenizer_fingerprint


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=st.binary(max_size=99), other=st.binary(max_size=99))
def test_equal_contents_alone_have_equal_fingerprints(tmp_path: Path, one: bytes, other: bytes) -> None:
    marks = [file_fingerprint(written(tmp_path / name, content)) for name, content in (("a", one), ("b", other))]
    assert (marks[0] == marks[1]) is (one == other)


@pytest.mark.parametrize("large", [False, True])
def test_a_folder_counts_by_the_files_of_its_model(
    tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(module, "WHOLE", 4)
        monkeypatch.setattr(module, "BLOCK", 2)
        monkeypatch.setattr(module, "BLOCKS", 4)

    def folder(name: str, **files: str) -> str | None:
        for file, text in files.items():
            written(tmp_path / name / file.replace("_", "."), text.encode())
        return file_fingerprint(tmp_path / name)

    first = folder("a", config_json="12345678", model_safetensors="x")
    assert folder("b", config_json="12345678", model_safetensors="x", README_md="new", tiny_ngrams="n") == first
    (tmp_path / "b" / "sub").mkdir()
    written(tmp_path / "b" / "sub" / "a.json", b"{}")
    assert file_fingerprint(tmp_path / "b") == first
    others = [
        folder("c", config_json="12345679", model_safetensors="x"),
        folder("d", config_json="x", model_safetensors="12345678"),
        folder("e", config_json="12345678"),
        folder("f", config_json="123456789", model_safetensors="x"),
    ]
    assert len({first, *others}) == 5


def test_every_block_of_a_large_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", BLOCKS * BLOCK)
    size = 3 * BLOCKS * BLOCK + 5
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    found = {file_fingerprint(tmp_path / "large")}
    last = (BLOCKS - 1) * (size - BLOCK) // (BLOCKS - 1)
    for at in (0, (size - BLOCK) // (BLOCKS - 1), last, size - 1):
        with (tmp_path / "large").open("r+b") as file:
            os.pwrite(file.fileno(), b"x", at)
        found.add(file_fingerprint(tmp_path / "large"))
    with (tmp_path / "large").open("ab") as file:
        file.write(b"\0")
    assert len({*found, file_fingerprint(tmp_path / "large")}) == 6


@pytest.mark.parametrize("text", ["~nobody-at-all/x", "a\0b", "x" * 5000, "empty"])
def test_what_is_no_file_has_no_fingerprint(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert file_fingerprint(text) is None


def test_several_files_count_by_what_they_hold(tmp_path: Path) -> None:
    files = [str(written(tmp_path / name, name.encode())) for name in "ab"]
    before = files_fingerprint(files)
    assert files_fingerprint(files[:1]) == file_fingerprint(files[0])
    moved = [str(Path(file).rename(tmp_path / f"moved {place}")) for place, file in enumerate(files)]
    assert files_fingerprint(moved) == before
    written(Path(moved[1]), b"changed")
    assert files_fingerprint(moved) not in (before, None)
    Path(moved[1]).unlink()
    assert files_fingerprint(moved) is None


def test_another_vocabulary_or_way_to_split_text_has_another_fingerprint() -> None:
    same, split, grown = tiny_tokenizer(), tiny_tokenizer(), tiny_tokenizer()
    split.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert split.get_vocab() == same.get_vocab(), "but the text is one token"
    before = tokenizer_fingerprint(grown)
    assert before == tokenizer_fingerprint(same)
    grown.add_tokens(["zzz"])
    every = {before, *map(tokenizer_fingerprint, (grown, split, tiny_tokenizer(["é"])))}
    assert len(every) == 4


def test_the_run_id_ignores_what_does_not_change_the_answers() -> None:
    config = {"model": {"path": "x"}, "method": {"budget": 8}}
    elsewhere = {"output_dir": "/x"}, {"paths": {"cache": "/y"}}, {"progress": False}, {"record": {"trees": 2}}
    same = [config | extra for extra in elsewhere]
    assert {run_id(other, {}) for other in same} == {run_id(config, {})}
    assert run_id(dict(reversed(config.items())), {}) == run_id(config, {}), "the order of keys says nothing"
    others = [run_id(config, {}), run_id(config | {"method": {"budget": 9}}, {}), run_id(config, {"model.path": "f"})]
    assert len(set(others)) == 3
    assert len(run_id(config, {})) == 16
