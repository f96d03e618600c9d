"""Questions of a benchmark, and the prompts they become: as they are, or by a chat template, within bounds."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache, partial
from inspect import signature
from itertools import islice, zip_longest
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import psutil

from aded.errors import BadInput, check_utf8, first_line
from aded.files.models.tokenizer import has_id
from aded.settings import Order

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from aded.files.models.tokenizer import AnyTokenizer

Message = Mapping[str, Any]
"""A message of a chat: `role`, `content`, and what else a chat template reads, such as `tool_calls`."""
SECONDS = 10.0
"""Longest rendering of a conversation; templates of models take milliseconds."""
MEMORY = 1 << 30
"""Bytes that the process may grow meanwhile."""
MOST_TEXT = 1 << 26
"""Characters of a rendered conversation."""
MOST_WIDE = 100_000
"""Of any number in a template, as the width to which a text is filled."""
WIDE = re.compile(r"[%{].*\d{6}", re.DOTALL)
"""In a format: a width above it."""
LOOK = 0.05
"""Seconds between two looks at a rendering that goes on."""


@dataclass(frozen=True)
class Question:
    """One question of one or more turns. `id` is unique in its benchmark; `category` groups questions in plots.

    turns: what comes before each answer; here a text, which the user says.
    references: right answers, where the benchmark has them; corpora are checked for them (docs/datastores.md).
    where: "FILE line N", where it comes from a file.
    """

    id: str
    category: str
    turns: tuple[Any, ...]
    references: tuple[str, ...] = field(default=(), kw_only=True)
    where: str = field(default="", kw_only=True, compare=False, repr=False)

    def prompt_ids(
        self, answers: Sequence[str], tokenizer: PreTrainedTokenizerBase, template: PromptTemplate
    ) -> list[int]:
        """Token ids of everything before the answer that follows `answers`. Raises BadInput.

        template: the model's.
        """
        return template.ids(tokenizer, self.turns[: len(answers) + 1], answers)


@dataclass(frozen=True)
class Chat(Question):
    """A question of messages, which become a prompt by a chat template.

    turns: the messages before each answer.
    tools: what the model may call, as JSON schemas.
    chat_template_kwargs: what the chat template reads beside them, before what the model's template sets.
    """

    turns: tuple[tuple[Message, ...], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def prompt_ids(
        self, answers: Sequence[str], tokenizer: PreTrainedTokenizerBase, template: PromptTemplate
    ) -> list[int]:
        """See Question. Of templates, only the tokenizer's own knows the roles of messages: it is always taken."""
        messages = [*self.turns[0]]
        for answer, before in zip(answers, self.turns[1:], strict=False):
            messages += [{"role": "assistant", "content": answer}, *before]
        chat = template if isinstance(template, ChatTemplate) else ChatTemplate()
        return chat.of_messages(tokenizer, messages, self.tools, self.chat_template_kwargs, f"question {self.id}")


@dataclass(frozen=True)
class PlainText(Question):
    """A question that the model reads as it is, whatever its template."""

    def prompt_ids(
        self, answers: Sequence[str], tokenizer: PreTrainedTokenizerBase, template: PromptTemplate
    ) -> list[int]:
        """See Question."""
        return Raw().ids(tokenizer, self.turns[: len(answers) + 1], answers)


@dataclass(frozen=True)
class TokenIds(Question):
    """A question of one turn, given as the token ids that the model reads."""

    turns: tuple[tuple[int, ...]]

    def prompt_ids(
        self, answers: Sequence[str], tokenizer: PreTrainedTokenizerBase, template: PromptTemplate
    ) -> list[int]:
        """See Question. No template is applied."""
        highest = max(self.turns[0])
        if not has_id(tokenizer, highest):
            raise BadInput("benchmark", f"question {self.id} has token {highest}; the tokenizer has {len(tokenizer)}")
        return list(self.turns[0])


def is_raw(question: Question, template: PromptTemplate) -> bool:
    """Are prompts and answers the model's own text, special tokens included?"""
    by_template = isinstance(template, Raw) and not isinstance(question, Chat)
    return by_template or isinstance(question, PlainText | TokenIds)


def limited(questions: list[Question], limit: int | None, order: Order = "in_turn") -> list[Question]:
    """`limit` questions, in the order in which they are asked; None: all, as they are in the file.

    A larger limit below their number adds questions behind those of a smaller one. Within a category they keep their
    order, and categories come in that of their first questions.
    """
    if limit is None or limit >= len(questions) or order == "first":
        return questions[:limit]
    categories: dict[str, list[Question]] = {}
    for question in questions:
        categories.setdefault(question.category, []).append(question)
    in_turn = (question for each in zip_longest(*categories.values()) for question in each if question)
    return list(islice(in_turn, limit))


@runtime_checkable
class Benchmark(Protocol):
    """A set of questions, and how an answer to one is cut and written."""

    stop_strings: Sequence[str]
    raw: bool
    """Questions are plain text to go on from, rather than messages of a chat."""

    def questions(self) -> list[Question]: ...

    def sample(self, question: Question, answer: str) -> dict[str, object] | None:
        """The line of samples.jsonl for a finished answer, or None where the benchmark has none."""


class GivenQuestions:
    """A benchmark of questions that are at hand. No scorer reads its answers."""

    raw = True

    def __init__(self, questions: list[Question], stop_strings: Sequence[str] = ()) -> None:
        self._questions, self.stop_strings = questions, stop_strings

    def questions(self) -> list[Question]:
        """See Benchmark."""
        return self._questions

    def sample(self, question: Question, answer: str) -> None:
        """See Benchmark."""


@runtime_checkable
class PromptTemplate(Protocol):
    """Turns a conversation into the text or ids that the model reads."""

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        """Token ids of the conversation up to the answer wanted: one more turn than there are answers."""


class ChatTemplate:
    """The tokenizer's own chat template.

    system: a system message for conversations that have none.
    chat_template_kwargs: what the template reads beside the messages, such as {enable_thinking: false}.
    """

    def __init__(self, system: str | None = None, chat_template_kwargs: Mapping[str, Any] | None = None) -> None:
        self.system, self.chat_template_kwargs = system, chat_template_kwargs or {}

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        messages: list[Message] = []
        for index, turn in enumerate(turns):
            messages.append({"role": "user", "content": turn})
            if index < len(answers):
                messages.append({"role": "assistant", "content": answers[index]})
        return self.of_messages(tokenizer, messages)

    def of_messages(
        self,
        tokenizer: PreTrainedTokenizerBase,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        own_kwargs: Mapping[str, Any] | None = None,
        where: str = "it",
    ) -> list[int]:
        """Token ids of messages up to the answer wanted. Raises BadInput.

        own_kwargs: of these messages, in place of the template's of the same name.
        where: what the messages are, for an error.
        """
        if self.system and messages[0]["role"] != "system":
            messages = [{"role": "system", "content": self.system}, *messages]
        kwargs = {**self.chat_template_kwargs, **(own_kwargs or {})}
        return ids_of_messages(messages, tokenizer, "model.template", where, tools, kwargs)


class Raw:
    """No template: the turns and answers as they are, one after the other."""

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        text = "".join(part for pair in zip(turns, [*answers, ""], strict=True) for part in pair)
        # A recorded prompt may begin with the token that the tokenizer puts before every text.
        first = getattr(tokenizer, "bos_token", None)
        return tokenizer(text, add_special_tokens=not (first and text.startswith(first)))["input_ids"]


def ids_of_messages(
    messages: Sequence[Message],
    tokenizer: AnyTokenizer,
    key: str,
    where: str,
    tools: Sequence[Mapping[str, Any]] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> list[int]:
    """Token ids of messages by the tokenizer's chat template, up to the answer wanted. Raises BadInput naming `key`.

    where: what the messages are, for an error.
    chat_template_kwargs: what the template reads beside messages and tools.
    """
    apply, template = (getattr(tokenizer, name, None) for name in ("apply_chat_template", "chat_template"))
    if apply is None or not template:
        raise BadInput(key, f"{where} is a list of messages, and this tokenizer has no chat template; give text")
    options: dict[str, Any] = dict(chat_template_kwargs or {})
    for name in options:
        if name in ("messages", *signature(apply).parameters) and name != "documents":
            raise BadInput(key, f"{where}: chat_template_kwargs.{name} is set by the harness; leave it out")
        if not re.search(rf"\b{re.escape(name)}\b", str(template)):
            raise BadInput(key, f"{where}: chat_template_kwargs.{name}: the chat template does not read it")
    if tools:
        options["tools"] = [dict(tool) for tool in tools]
    try:
        plain = [dict(one) for one in messages]
        render = partial(apply, plain, tokenize=False, add_generation_prompt=True, **options)
        text = rendered(template, render)
    except Exception as error:  # templates are programs, and raise what they like
        raise BadInput(key, f"{where}: the chat template refuses the messages ({first_line(error)})") from None
    check_utf8(text, key)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


class _Stopped(BaseException):
    """Ends a rendering; no template can catch it."""


def rendered(template: str, render: Callable[[], str]) -> str:
    """What `render` returns, of a template: a program that comes with a model, and may never end.

    Raises what it raises; TimeoutError, MemoryError or ValueError for one that does too much.

    It runs in a thread of its own, the only thing in Python that can be stopped from outside, in any thread.
    """
    if excess := _excess(template):
        raise ValueError(f"it computes {excess}, which no template of a model does, and it may take for ever")
    answer: Future[str] = Future()
    thread, until = Thread(target=_answer, args=(answer, render), daemon=True), monotonic() + SECONDS
    thread.start()
    thread.join(LOOK)
    before = _resident() if thread.is_alive() else 0
    while thread.is_alive():
        thread.join(LOOK)
        grown = _resident() > before + MEMORY
        if grown or monotonic() > until:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stopped))
            if grown:
                raise MemoryError(f"it takes more than {MEMORY >> 20} MB")
            raise TimeoutError(f"it takes more than {SECONDS:g} seconds")
    text = answer.result()
    if len(text) > MOST_TEXT:
        raise MemoryError(f"it makes {len(text)} characters of them")
    return text


def _answer(answer: Future[str], render: Callable[[], str]) -> None:
    try:
        answer.set_result(render())
    except _Stopped:
        pass
    except BaseException as error:
        answer.set_exception(error)


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return int(psutil.Process().memory_info().rss)


@lru_cache(8)
def _excess(template: str) -> str | None:
    """What a template computes that no model's does, and that no other thread can end once it has begun."""
    from jinja2 import Environment

    tokens = [(kind, text) for _, kind, text in Environment().lex(template) if kind != "whitespace"]
    for before, (kind, text), after in zip([("", ""), *tokens], tokens, [*tokens[1:], ("", "")], strict=False):
        if text == "**" and kind == "operator":
            return "powers"
        if text == "*" and kind == "operator" and not any(_is_small(*one) for one in (before, after)):
            return "products of more than a small number"
        if (kind == "integer" and not _is_small(kind, text, MOST_WIDE)) or (kind == "string" and WIDE.search(text)):
            return f"with {text[:40]}"
    return None


def _is_small(kind: str, text: str, most: int = 100) -> bool:
    return kind == "integer" and len(text) < 20 and int(text.replace("_", ""), 0) <= most
