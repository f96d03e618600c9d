"""The chat: its text is the model's, drafted tokens are coloured, and pipes get plain text."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import save_model, tiny_model, tiny_tokenizer

import aded
from aded.commands.demo import DRAFTED, RESET, DemoSettings, chat, lines_of, prose, show
from aded.errors import BadInput

LINES = ["the cat sat on the mat, the cat sat", "on the mat"]


@pytest.fixture
def settings(tmp_path: Path) -> DemoSettings:
    folder = save_model(tmp_path, tiny_model(vocab_size=128, max_position_embeddings=512))
    return DemoSettings(model=str(folder), method="prompt_lookup", max_new_tokens=40)


def test_answers_are_the_models_and_the_chat_goes_on(settings: DemoSettings) -> None:
    model, tokenizer = tiny_model(vocab_size=128, max_position_embeddings=512), tiny_tokenizer()
    messages, wanted = list[dict[str, str]](), ""
    for line in LINES:
        messages.append({"role": "user", "content": line})
        text = aded.generate(model, tokenizer, messages, drafter=None, max_new_tokens=40).text
        messages.append({"role": "assistant", "content": text})
        wanted += f"{text}\n[NOTE]\n"
    coloured = "".join(chat(LINES, settings))
    assert DRAFTED in coloured
    assert coloured.count(DRAFTED) == coloured.count(RESET)
    plain = "".join(chat(LINES, replace(settings, plain=True)))
    for said in (plain, coloured.replace(DRAFTED, "").replace(RESET, "")):
        note = r"\[[\d.]+ tokens/s, [\d.]+ tokens per step; without drafts [\d.]+ tokens/s\]"
        assert re.sub(note, "[NOTE]", said) == wanted


def test_it_reads_a_pipe_as_text_and_no_further_words(
    settings: DemoSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(LINES) + "\n\n"))
    assert list(lines_of(plain=True)) == LINES
    monkeypatch.setattr("sys.stdin", io.StringIO(LINES[0]))
    show([], replace(settings, plain=True, compare=False))
    out = capsys.readouterr().out
    assert "\033" not in out
    assert out.count(" tokens/s") == 1
    with pytest.raises(BadInput, match=r"^smollm: is no setting"):
        show(["smollm"], settings)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), "utf-8", "surrogateescape"))
    assert list(lines_of(plain=True)) == ["caf\ufffd"]
    # Control characters do not reach the terminal.
    assert prose("a\x1b[2Jb\x9b\x07\r\n\té👩‍💻") == "a[2Jb\n\té👩‍💻"
