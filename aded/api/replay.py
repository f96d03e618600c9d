"""`aded.replay`: mean accepted tokens on recorded answers, exact, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from aded.api.several import several_drafters, summaries
from aded.bench.questions import Benchmark, ChatTemplate, GivenQuestions, PromptTemplate, Question, Raw, limited
from aded.bench.recording import PackBenchmark, Recording
from aded.bench.runner import Asked, build_experiment
from aded.config.choices import benchmark_arguments, names_of, read_choice
from aded.config.objects import instantiate
from aded.core.drafter import Drafter
from aded.errors import BadInput
from aded.files.answer_file import ANSWERS_KEY, read_prompts
from aded.files.models.tokenizer import PlainTokenizer, load_tokenizer, read_plain_tokenizer
from aded.files.pack import About, AbsentTokenizer, is_pack, read_about
from aded.records.summary import Summary
from aded.settings import Positive, checked
from aded.targets.engine import Loaded
from aded.targets.weightless import WeightlessTarget

if TYPE_CHECKING:
    from aded.files.models.tokenizer import AnyTokenizer

LONGEST = 1_000_000
"""Tokens; no recorded answer is longer."""
ToText = Callable[[Sequence[str], Sequence[str]], str]
"""(turns, answers to all but the last) -> the text that the model read."""


class OwnTemplate:
    """A function that puts a conversation into one text."""

    def __init__(self, text: ToText) -> None:
        self._text = text

    def ids(self, tokenizer: AnyTokenizer, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        """See PromptTemplate."""
        text = self._text(turns, answers)
        if not isinstance(text, str):
            raise BadInput("template", f"returned a {type(text).__name__}; it must return text")
        return Raw().ids(tokenizer, [text], [])  # type: ignore[arg-type]


def replay(
    answers: str | Path,
    tokenizer: Any = None,
    methods: Sequence[str | Drafter] = (),
    *,
    datastore: Any = None,
    questions: str | Path | None = None,
    template: str | ToText = "vicuna_v1.1",
    max_new_tokens: int | None = None,
    limit: int | None = None,
    eos_token: str | None = None,
) -> list[Summary]:
    """A summary per method, as a run with model=recorded writes it; it has no times of a model. Raises BadInput.

    answers: a pack (docs/packs.md), or a file of recorded answers (docs/recorded_answers.md); lines with `prompt` and
        `answer` need no questions.
    tokenizer: of the model that gave them: its folder, Hub id or `embedded`, a tokenizer of transformers, or of the
        package tokenizers; a pack needs none.
    methods: names, or drafters; new ones with the same settings are made, as these may have learned.
    datastore: the file for those names whose method reads one; None: that of a run's default corpus.
    questions: a benchmark's name, or a file in FastChat's form. A pack has its own.
    template: how they became prompts: a name of FastChat's (package fschat), `chat` for the tokenizer's own, `raw`
        for none, or a function (turns, answers so far) -> text. A pack has the prompts.
    max_new_tokens: where an answer is cut; None: at 1024, of a pack nowhere.
    limit: how many questions, of each category in turn; None: all.
    eos_token: the text of the token that ends an answer, for a tokenizer of the package tokenizers, which knows none.
    """
    if not isinstance(answers, str | Path):
        raise BadInput("answers", f"{type(answers).__name__} is neither a file nor a folder")
    pack = read_about(answers, ANSWERS_KEY) if is_pack(answers) else None
    if pack and questions is not None:
        raise BadInput("questions", f"{answers} is a pack, which has its own; leave it out")
    known = _tokenizer(tokenizer, eos_token, pack)
    benchmark = PackBenchmark(str(answers)) if pack else _benchmark(answers, questions)
    every, longest = benchmark.questions(), (LONGEST if pack else 1024) if max_new_tokens is None else max_new_tokens
    experiment = build_experiment(
        Loaded(WeightlessTarget(), known, frozenset()),  # type: ignore[arg-type]
        Asked(benchmark, every, limited(every, checked(limit, Positive | None, "limit"))),
        lambda: _template(template),
        max_new_tokens=checked(longest, Positive, "max_new_tokens"),
        recording=Recording(answers, known),
    )
    model, name = (pack.model, pack.benchmark) if pack else ("recorded", Path(questions or answers).stem)
    return summaries(experiment, several_drafters(methods, datastore, known), model=model, benchmark=name)


def _tokenizer(given: Any, eos_token: str | None, pack: About | None) -> AnyTokenizer:
    if given is None and pack:
        return AbsentTokenizer(pack.tokenizer, pack.vocabulary)
    if isinstance(given, str | Path):
        try:
            return load_tokenizer(given)
        except ImportError:  # transformers is not installed
            return read_plain_tokenizer(given, "tokenizer")
    if isinstance(given, Tokenizer):
        if eos_token is not None and given.token_to_id(eos_token) is None:
            raise BadInput("eos_token", f"{eos_token!r} is no token of this tokenizer")
        return PlainTokenizer(given, eos_token)
    if callable(given) and hasattr(given, "get_vocab"):
        found: AnyTokenizer = given
        return found
    raise BadInput("tokenizer", f"{type(given).__name__} is neither a folder nor a tokenizer")


def _benchmark(answers: str | Path, questions: str | Path | None) -> Benchmark:
    if questions is None:
        return GivenQuestions([Question(name, "", (prompt,)) for name, prompt in read_prompts(answers).items()])
    if str(questions) in names_of("benchmark"):
        config = benchmark_arguments(str(questions))
    else:
        config = {"_target_": "llm_judge.questions.JudgeQuestions", "question_file": str(questions)}
    found: Benchmark = instantiate(config, "questions", Benchmark)
    return found


def _template(given: str | ToText) -> PromptTemplate:
    if callable(given):
        return OwnTemplate(given)
    if given in ("raw", "chat"):
        return Raw() if given == "raw" else ChatTemplate()
    try:
        config = {**read_choice("model/template", "fastchat"), "name": given}
        found: PromptTemplate = instantiate(config, "template", PromptTemplate)
        return found
    except ImportError:
        raise BadInput(
            "template",
            f"{given!r} is one of the package fschat, which is not installed; install it, or give a function",
        ) from None
