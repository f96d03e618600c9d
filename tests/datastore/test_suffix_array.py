from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.errors import BadInput
from aded.files.array_file import write_arrays
from aded.files.suffix_file import FORMAT, VERSION, open_suffixes
from datastore.suffix_array import sorted_suffixes, with_separators, write_suffixes

HEADER = {"tokenizer": "t", "vocabulary": "70000"}


@given(st.lists(st.integers(0, 3), max_size=40), st.sampled_from([1, 300, 65_535, 2**20]))
def test_suffixes_are_in_the_order_of_their_tokens(small: list[int], scale: int) -> None:
    """Also tokens of two and four bytes, whose little-endian bytes would sort in another order."""
    tokens = np.array(small, np.int32) * scale + np.array(small, np.int32) % 2
    stream = tokens.tolist()
    assert sorted_suffixes(tokens).tolist() == sorted(range(len(stream)), key=lambda at: stream[at:])


def test_a_separator_follows_each_document(tmp_path: Path) -> None:
    tokens = with_separators([np.array([5, 69_999]), np.array([], np.int64), np.array([5])], 70_000)
    path = tmp_path / "three.suffixes"
    write_suffixes(path, tokens, HEADER)
    opened = open_suffixes(path)
    assert opened.separator == 70_000
    assert opened.tokens.tolist() == [5, 69_999, 70_000, 70_000, 5, 70_000]
    assert opened.suffixes.tolist() == [0, 4, 1, 5, 3, 2]
    assert (opened.tokens.dtype, opened.suffixes.dtype) == (np.int32, np.int32)
    assert not opened.tokens.flags.writeable
    opened.check_tokenizer("t")
    with pytest.raises(BadInput, match="model's own tokenizer"):
        opened.check_tokenizer("u")


def test_an_empty_stream_has_no_suffixes(tmp_path: Path) -> None:
    write_suffixes(tmp_path / "none.suffixes", with_separators([], 5), HEADER)
    assert len(open_suffixes(tmp_path / "none.suffixes").suffixes) == 0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tokens": [1, 2]}, "do not fit"),
        ({"tokens": [1, 2], "suffixes": [0]}, "do not fit"),
        ({"tokens": [1, 2], "suffixes": [0, 2]}, "outside"),
        ({"tokens": [1, 2], "suffixes": [-1, 0]}, "outside"),
    ],
)
def test_suffixes_that_would_be_read_out_of_bounds_are_refused(
    arrays: dict[str, list[int]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "crafted.suffixes"
    header = {"format": FORMAT, "version": VERSION, **HEADER}
    write_arrays(path, header, {name: np.array(values, np.int32) for name, values in arrays.items()})
    with pytest.raises(BadInput, match=f"crafted.suffixes.*{message}"):
        open_suffixes(path)
