from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from eagle_heads import CONFIG, EAGLE, EAGLE3, eagle, eagle3, random_state, write
from tiny import VOCABULARY

from aded.errors import BadInput
from baselines.heads.eagle.drafter import Eagle
from baselines.heads.eagle.files import load_head, published_layers, save_head
from baselines.heads.eagle.model import Eagle3Head, EagleHead


@pytest.mark.parametrize("torchs_own", [False, True])
@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_published_files_are_read(kind: type[EagleHead], torchs_own: bool, tmp_path: Path) -> None:
    """Also in half precision, with rotary frequencies that older files keep, and where the head knows all tokens."""
    state = random_state(EAGLE if kind is EagleHead else {**EAGLE3, "lm_head.weight": [VOCABULARY, 32]})
    state["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    write(tmp_path, {name: value.half() for name, value in state.items()}, torchs_own=torchs_own)
    head, reads = load(tmp_path, kind)
    assert head.known == VOCABULARY
    assert head.tokens is None
    assert reads == (() if kind is EagleHead else published_layers(8))
    assert torch.equal(head.fc.weight, state["fc.weight"].half().float())


def test_published_layers_are_low_middle_and_high() -> None:
    assert published_layers(32) == (2, 16, 29)
    assert published_layers(40) == (2, 20, 37)
    assert all(0 <= layer < count for count in range(1, 6) for layer in published_layers(count))


def load(folder: Path, kind: type[EagleHead], **changed: int) -> tuple[EagleHead, tuple[int, ...]]:
    return load_head(str(folder), kind, **{"hidden": 32, "vocabulary": VOCABULARY, "layers": 8, **changed})


@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_a_head_is_written_and_read_again(kind: type[EagleHead], tmp_path: Path) -> None:
    (eagle if kind is EagleHead else eagle3)(tmp_path / "published")
    head, reads = load(tmp_path / "published", kind)
    save_head(head, tmp_path / "ours", {"made": "here"}, reads)
    again, reads_again = load(tmp_path / "ours", kind)
    assert reads == reads_again
    assert again.config.rope_parameters == head.config.rope_parameters
    for name, value in head.state_dict().items():
        wanted = value if name == "d2t" else value.bfloat16().float()
        assert torch.equal(again.state_dict()[name], wanted), name


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"hidden": 48}, r"was trained for another model: .*this target needs"),
        ({"vocabulary": 65}, r"is of another model: its vocab_size is 64, this target's 65"),
    ],
)
@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_a_head_for_another_model_is_refused(
    kind: type[EagleHead], changed: dict[str, int], problem: str, tmp_path: Path
) -> None:
    (eagle if kind is EagleHead else eagle3)(tmp_path)
    with pytest.raises(BadInput, match=rf"^method.heads: .*{problem}"):
        load(tmp_path, kind, **changed)


def test_a_head_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no head of EAGLE-3: it lacks "):
        load(eagle(tmp_path / "one"), Eagle3Head)
    with pytest.raises(BadInput, match="holds no head of EAGLE: it lacks "):
        load(eagle3(tmp_path / "three"), EagleHead)


@pytest.mark.parametrize(
    ("d2t", "problem"),
    [
        (-torch.arange(20), "its d2t names no 20 of 64 tokens"),
        (torch.zeros(20), "d2t must be whole numbers"),
        (torch.tensor(0), "d2t must be whole numbers"),
        (torch.empty(0, dtype=torch.int64), "d2t must be whole numbers"),
    ],
)
def test_a_d2t_that_names_no_tokens_is_refused(d2t: torch.Tensor, problem: str, tmp_path: Path) -> None:
    write(tmp_path, {**random_state(EAGLE3), "d2t": d2t})
    with pytest.raises(BadInput, match=problem):
        load(tmp_path, Eagle3Head)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "is no config of a head"),
        ("[1]", "is no config of a head"),
        ('{"hidden_size": 32}', "lacks intermediate_size"),
        (json.dumps({**CONFIG, "hidden_act": "zzz"}), "makes no head of EAGLE"),
        (json.dumps({**CONFIG, "intermediate_size": -1}), "makes no head of EAGLE"),
        (json.dumps({**CONFIG, "eagle_aux_hidden_state_layer_ids": "all"}), "must be a list of layers"),
    ],
)
def test_a_config_that_is_none_is_refused(text: str | None, problem: str, tmp_path: Path) -> None:
    eagle(tmp_path)
    (tmp_path / "config.json").unlink()
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadInput, match=problem):
        load(tmp_path, EagleHead)


def test_what_is_no_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no heads at "):
        load(tmp_path, EagleHead)
    state = random_state(EAGLE)
    del state["layers.0.mlp.up_proj.weight"]
    with pytest.raises(BadInput, match=r"it lacks layers.0.mlp.up_proj.weight"):
        load(write(tmp_path / "short", state), EagleHead)
    with pytest.raises(BadInput, match="EAGLE reads hidden states"):
        Eagle(str(tmp_path)).setup(SimpleNamespace())
