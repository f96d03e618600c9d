from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from aded.errors import BadInput
from aded.files.datastores import array_file
from aded.files.datastores.array_file import ArrayFile, open_arrays, write_arrays
from aded.files.datastores.blocks import BLOCK
from datastore.spill import Spill

HEADER = {"format": "f", "version": "1", "tokenizer": "t", "vocabulary": "9"}
ARRAYS: dict[str, np.ndarray] = {
    "b": np.arange(5, dtype=np.int32),
    "a": np.arange(3, dtype=np.uint32),
    "wide": np.array([2**63], np.uint64),
    "none": np.empty(0, np.int64),
}


def opened(path: Path) -> ArrayFile:
    header, _, _, blocks = open_arrays(path, "f", "1")
    return ArrayFile(path, header, blocks=blocks)


def refused(path: Path) -> None:
    with pytest.raises(BadInput, match=f"^datastore.path: .*{re.escape(str(path))}"):
        opened(path).verify()


def test_a_file_larger_than_memory_is_read_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells how a mapping is to be read: the flag `rr` of /proc/self/smaps."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("no /proc")
    path = tmp_path / "x.arrays"
    write_arrays(path, HEADER, ARRAYS)

    def flags() -> list[str]:
        _, arrays, _, _ = open_arrays(path, "f", "1")
        assert arrays["b"][2] == 2
        mapping = smaps.read_text().split(str(path))[1]
        return next(line for line in mapping.splitlines() if line.startswith("VmFlags")).split()

    assert "rr" not in flags()
    monkeypatch.setattr(array_file, "memory", lambda: path.stat().st_size - 1)
    assert "rr" in flags()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "new" / "x.arrays", HEADER, ARRAYS)
    return tmp_path / "new" / "x.arrays"


def test_home_is_meant_by_a_tilde(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(path.parent))
    assert open_arrays("~/x.arrays", "f", "1")[0] == open_arrays(path, "f", "1")[0]
    assert array_file.format_of("~/x.arrays") == "f"


def test_an_opened_file_equals_the_written_arrays(path: Path) -> None:
    header, arrays, starts, blocks = open_arrays(path, "f", "1")
    assert header == {**HEADER, "fingerprint": header["fingerprint"]}
    words = blocks.words.view(np.uint8)
    assert arrays.keys() - {"padding"} == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert words[starts[name] :][: array.nbytes].tobytes() == array.tobytes()
        assert np.array_equal(arrays[name], array)
        assert not arrays[name].flags.writeable
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "no partial file is left"


def test_other_programs_read_it_as_safetensors(path: Path) -> None:
    loaded = load_file(path)
    assert all(np.array_equal(loaded[name], array) for name, array in ARRAYS.items())


def test_a_spill_is_written_like_an_array(path: Path, tmp_path: Path) -> None:
    spill = Spill(tmp_path / "b.raw", np.int32)
    for part in ([0, 1], [], [2, 3, 4]):
        spill.append(np.array(part, np.int64))
    write_arrays(tmp_path / "spilled.arrays", HEADER, {**ARRAYS, "b": spill})
    assert (tmp_path / "spilled.arrays").read_bytes() == path.read_bytes()


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none.arrays")
    refused(tmp_path)


def test_a_file_that_was_cut_lengthened_or_changed_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for at, byte in enumerate(whole):
        for damaged in (whole[:at], whole[:at] + bytes([byte ^ 1 << at % 8]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            refused(path)
    path.write_bytes(whole + b"\0")
    refused(path)


def test_a_flipped_bit_in_any_block_is_found_when_it_is_verified(tmp_path: Path) -> None:
    path = tmp_path / "blocks.arrays"
    write_arrays(path, HEADER, {"a": np.zeros(3 * BLOCK // 4 + 5, np.int32)})
    whole = path.read_bytes()
    for at in range(len(whole) - 3 * BLOCK, len(whole) - 60, 9973):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        file = opened(path)
        with pytest.raises(BadInput, match=f"{re.escape(str(path))} is damaged .block"):
            file.verify()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip file of some kind", bytes(100), b"\2" + bytes(7) + b"{}"])
def test_garbage_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "garbage.arrays").write_bytes(data)
    refused(tmp_path / "garbage.arrays")


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    """Even with our header: it has no checksum."""
    for metadata in (None, HEADER):
        save_file({"weight": np.zeros(3, np.int32)}, tmp_path / "foreign.arrays", metadata)
        refused(tmp_path / "foreign.arrays")


@pytest.mark.parametrize("changes", [{"vocabulary": "0"}, {"vocabulary": "many"}, {"tokenizer": ""}])
def test_a_header_without_a_vocabulary_is_refused(changes: dict[str, str], tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.arrays", HEADER | changes, ARRAYS)
    refused(tmp_path / "x.arrays")
