"""A sample of the families; `make zoo` tries all."""

import logging
import re
from pathlib import Path

import pytest
import transformers
from families import names, tiny_family
from survey import Verdict, judge

from aded.errors import BadInput
from aded.kernels.linear import PackedLinear
from aded.targets.eager import EagerTarget
from aded.targets.load import checked_target
from aded.targets.self_check import SelfCheck
from aded.targets.tree_attention import RopeSwitch

PAGE = Path(__file__).parents[2] / "docs" / "models" / "families.md"
EXACT = ["bitnet", "bloom", "deepseek_v3", "falcon, ALiBi", "gemma3n_text", "gpt_neo", "mpt", "phimoe, longrope"]
REFUSED = ["bart", "openai-gpt", "phi4_multimodal, longrope", "prophetnet", "qwen3_next"]


def some(first: str, others: list[str]) -> pytest.MarkDecorator:
    """One family, and for `make thorough` others."""
    return pytest.mark.parametrize(
        "family", [first, *(pytest.param(one, marks=pytest.mark.thorough) for one in others)]
    )


def test_the_page_has_every_family_and_each_is_sound() -> None:
    text = PAGE.read_text(encoding="utf-8")
    if f"transformers {transformers.__version__} " not in text:
        pytest.skip("the page is of another release of transformers: run make zoo")
    rows = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    assert [row[0].strip("`") for row in rows] == names()
    assert all(Verdict(*row).sound for row in rows)


@some("phi3, longrope", EXACT)
def test_families_are_exact(family: str) -> None:
    assert judge(family, compiled=False).eager == "exact"


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["deepseek_v2", "llama, longrope"])
def test_families_are_exact_compiled(family: str) -> None:
    verdict = judge(family)
    assert (verdict.eager, verdict.compiled) == ("exact", "exact"), verdict.why


@some("mamba", REFUSED)
def test_others_are_refused_in_one_line(family: str) -> None:
    verdict = judge(family)
    assert verdict.eager == "refused"
    assert verdict.model in verdict.why
    assert "\n" not in verdict.why


@pytest.mark.parametrize(("family", "name"), [("llama", "Llama"), ("phi3", "Phi3")])
def test_the_self_check_finds_what_goes_wrong_as_frequencies_change(
    family: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees that change them early, and a cache that `generate` would forget."""
    target = EagerTarget(tiny_family(f"{family}, longrope"))
    if family == "llama":
        monkeypatch.setattr(RopeSwitch, "deepest", lambda *_: 100)
    else:
        monkeypatch.setattr(target.switch, "_prefill_at", [])
    with pytest.raises(BadInput, match=f"{name}ForCausalLM does not honour"):
        target.self_check()


@some("gpt_neo", ["bloom", "falcon, ALiBi", "mpt"])
def test_the_self_check_finds_attention_that_counts_rows(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aded.targets.tree_attention._counts_rows", lambda _: False)
    with pytest.raises(BadInput, match=r"ForCausalLM (cannot verify|does not honour)"):
        EagerTarget(tiny_family(family)).self_check()


@pytest.mark.parametrize("error", [None, RuntimeError("no C++ compiler\ndetails"), OSError("no space")])
def test_where_our_kernels_make_another_model_or_cannot_be_compiled_torchs_go_on(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise error or AssertionError

    if error:
        monkeypatch.setattr("aded.targets.load.use_own_kernels", fail)
    else:
        monkeypatch.setattr("aded.kernels.attention.torch.ops.aded.tree_attention", lambda query, *_: query.mT * 0)
    model = tiny_family("llama")
    with caplog.at_level(logging.WARNING):
        target = checked_target(model, SelfCheck(model), "exact")
    (line,) = (record.getMessage() for record in caplog.records if record.name == "aded.targets.load")
    why = f"{str(error).splitlines()[0]})" if error else "model: LlamaForCausalLM does not honour"
    assert line.startswith(f"model.kernels=exact: torch's go on ({why}")
    assert model.config._attn_implementation == "sdpa"
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
    assert len(target.output_projection._forward_pre_hooks) == 1
