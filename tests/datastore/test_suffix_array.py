from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.errors import BadInput
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.suffix_file import FORMAT, VERSION, are_tokens_whole, open_suffixes, suffix_at, token_at
from baselines.tokens.rest import starts_behind
from datastore.builder import sorted_suffixes, with_separators, write_suffixes

HEADER = {"tokenizer": "t", "vocabulary": "70000"}


@given(st.lists(st.integers(0, 3), max_size=40), st.sampled_from([1, 300, 65_535, 2**20]))
def test_suffixes_are_in_the_order_of_their_tokens(small: list[int], scale: int) -> None:
    """Also tokens of two and four bytes, whose little-endian bytes would sort in another order."""
    tokens = np.array(small, np.int32) * scale + np.array(small, np.int32) % 2
    stream = tokens.tolist()
    assert sorted_suffixes(tokens).tolist() == sorted(range(len(stream)), key=lambda at: stream[at:])


def test_a_separator_follows_each_document_and_tokens_take_two_bytes_where_they_fit(tmp_path: Path) -> None:
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
    header = {"tokenizer": "t", "vocabulary": "65535"}
    write_suffixes(tmp_path / "two.suffixes", with_separators([np.array([65_534, 0])], 65_535), header)
    opened = open_suffixes(tmp_path / "two.suffixes")
    assert opened.tokens.dtype == np.uint16
    assert opened.tokens.tolist() == [65_534, 0, 65_535]


def crafted(folder: Path, **arrays: list[int] | list[float]) -> Path:
    path, header = folder / "crafted.suffixes", {"format": FORMAT, "version": VERSION, **HEADER}
    write_arrays(
        path,
        header,
        {name: np.array(values, np.float32 if 0.5 in values else np.int32) for name, values in arrays.items()},
    )
    return path


def test_arrays_that_do_not_fit_together_are_refused_and_no_lookup_leaves_the_stream(tmp_path: Path) -> None:
    for arrays in ({"tokens": [1, 2]}, {"tokens": [1, 2], "suffixes": [0]}, {"tokens": [0.5], "suffixes": [0]}):
        with pytest.raises(BadInput, match=r"crafted.suffixes.*do not fit"):
            open_suffixes(crafted(tmp_path, **arrays))
    for token in (2**31 - 1, -1):
        with pytest.raises(BadInput, match=r"crafted.suffixes is damaged .a token is above 70000"):
            open_suffixes(crafted(tmp_path, tokens=[token], suffixes=[0])).verify()
    for suffixes in ([0, 2], [-1, 0], [2**31 - 1, -(2**31)]):
        corpus = open_suffixes(crafted(tmp_path, tokens=[1, 2], suffixes=suffixes)).corpus
        starts = [suffix_at(corpus, rank) for rank in range(2)]
        assert starts == suffixes
        assert [token_at(corpus, start) for start in starts] == [{0: 1}.get(start, -1) for start in starts]
        assert all(0 <= start <= 2**31 for start in starts_behind(corpus, 0, 2, 1, 4).tolist())


def test_tokens_up_to_a_damaged_block_are_whole_and_those_behind_are_not(tmp_path: Path) -> None:
    stream = with_separators([np.random.default_rng(0).integers(60_000, size=100_000)], 2**16)
    write_suffixes(tmp_path / "s", stream, {"tokenizer": "t", "vocabulary": "65536"})
    corpus = open_suffixes(tmp_path / "s").corpus
    begin, size = int(corpus.at[0]), corpus.tokens.itemsize
    content = bytearray((tmp_path / "s").read_bytes())
    content[begin + 99_000 * size] ^= 4
    (tmp_path / "s").write_bytes(content)
    corpus = open_suffixes(tmp_path / "s").corpus
    assert [are_tokens_whole(corpus, 0, end) for end in (1, 9_000, 99_500)] == [True, True, False]
