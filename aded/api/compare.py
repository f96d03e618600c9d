"""`aded.compare`: methods on your model and prompts, each in turn with autoregressive decoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_type_hints

from aded.api.drafter import drafter, several, several_drafters
from aded.api.model import prepared_model
from aded.api.prompt import prompt_ids
from aded.bench.questions import Question
from aded.bench.runner import Runner
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding
from aded.errors import BadInput
from aded.records.metrics import summarise
from aded.settings import Positive, Text, checked, checked_keys
from aded.targets.eager import eos_token_ids

if TYPE_CHECKING:
    from pandas import DataFrame
    from transformers import PreTrainedTokenizerBase


class GivenPrompts:
    """Prompts as a benchmark, and their own template: a question's turn is the number of its prompt."""

    raw = True

    def __init__(
        self, prompts: Iterable[Any], tokenizer: PreTrainedTokenizerBase, stop_strings: Sequence[str]
    ) -> None:
        self._ids = [prompt_ids(prompt, tokenizer).tolist() for prompt in prompts]
        self.stop_strings: Sequence[str] = tuple(stop_strings)
        if not self._ids:
            raise BadInput("prompts", "there is none; give a list of texts, token ids or chats")

    def questions(self) -> list[Question]:
        return [Question(str(number), "", (str(number),)) for number in range(len(self._ids))]

    def sample(self, question: Question, answer: str) -> None:
        """No scorer reads these answers."""

    def ids(self, tokenizer: object, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        """See PromptTemplate."""
        return self._ids[int(turns[0])]


def compare(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Any],
    methods: Sequence[str | Drafter],
    *,
    max_new_tokens: int = 128,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    stop: Sequence[str] = (),
    datastore: Any = None,
    engine: str = "eager",
    kernels: str = "exact",
) -> DataFrame:
    """A row per method; its columns are the keys of a run's summary (aded.records.summary.Summary). Raises BadInput.

    Each method answers each prompt in turn with autoregressive decoding, in slices of about 0.25 s, as in a run. The
    drafters are new ones with the same settings: what yours have learned stays with them.

    prompts: texts, token ids or chats, in any mixture.
    methods: names, or drafters.
    datastore: the file for those names whose method reads one.
    The other arguments are those of `aded.generate`.
    """
    import pandas

    given = {"temperature": temperature, "top_p": top_p, "seed": seed}
    decoding = Decoding(**checked_keys(given, get_type_hints(Decoding, include_extras=True), ""))
    limit: int = checked(max_new_tokens, Positive, "max_new_tokens")
    benchmark = GivenPrompts(several(prompts, "prompts"), tokenizer, checked(list(stop), list[Text], "stop"))
    prepared, summaries = prepared_model(model, kernels, engine), []
    for named in several_drafters(methods, datastore):
        named.check_tokenizer(tokenizer)
        with named.in_use(), prepared.in_use(), prepared.at_work():
            named.setup(prepared.target)
            runner = Runner(
                target=prepared.target,
                tokenizer=tokenizer,
                eos_token_ids=eos_token_ids(model),
                template=benchmark,
                benchmark=benchmark,
                drafter=named,
                baseline=drafter("autoregressive"),
                recording=None,
                decoding=decoding,
                max_new_tokens=limit,
            )
            runner.warm_up()
            rows = [row for rows in runner.answer(benchmark.questions()) for row in rows]
        name = str(model.config.name_or_path or type(model).__name__)
        names = {"method": named.name, "model": name, "benchmark": "prompts"}
        summaries.append(summarise(rows, **names, run_id="", adaptation=named.adaptation))
    return pandas.DataFrame([asdict(summary) for summary in summaries]).drop(columns="run_id")
