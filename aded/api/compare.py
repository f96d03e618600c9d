"""`aded.compare`: methods on your model and prompts, each in turn with autoregressive decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aded.api.model import prepared_model
from aded.api.several import checked_list, several_drafters, summaries
from aded.api.text import check_is_tokenizer, check_known, checked_stops, prompt_ids
from aded.bench.questions import GivenQuestions, Question, Raw, TokenIds
from aded.bench.runner import WARM_UP_TEXT, Asked, build_experiment
from aded.core.drafter import Drafter
from aded.core.sampler import checked_decoding
from aded.settings import Engine, Kernels, Positive, checked
from aded.targets.eager import eos_token_ids
from aded.targets.engine import Loaded

if TYPE_CHECKING:
    from pandas import DataFrame
    from transformers import PreTrainedTokenizerBase


def compare(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Any],
    methods: Sequence[str | Drafter],
    *,
    max_new_tokens: int = 128,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    ignore_eos: bool = False,
    seed: int = 0,
    stop: str | Sequence[str] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
    datastore: Any = None,
    engine: Engine = "eager",
    kernels: Kernels = "exact",
) -> DataFrame:
    """A row per method; its columns are the keys of a run's summary (aded.records.summary.Summary). Raises BadInput.

    Each method answers each prompt in turn with autoregressive decoding, in slices of about 0.25 s, as in a run. The
    drafters are new ones with the same settings: what yours have learned stays with them.

    prompts: texts, token ids or chats, in any mixture.
    methods: names, or drafters.
    datastore: the file for those names whose method reads one; None: that of a run's default corpus.
    The other arguments are those of `aded.generate`.
    """
    import pandas

    check_is_tokenizer(tokenizer)
    settings = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p, "seed": seed}
    decoding = checked_decoding({**settings, "repetition_penalty": repetition_penalty, "ignore_eos": ignore_eos}, "")
    limit: int = checked(max_new_tokens, Positive, "max_new_tokens")
    stops = checked_stops(stop)
    ids = [prompt_ids(prompt, tokenizer, chat_template_kwargs) for prompt in checked_list(prompts, "prompts")]
    drafters, prepared = several_drafters(methods, datastore, tokenizer), prepared_model(model, kernels, engine)
    for one in (*ids, prompt_ids(WARM_UP_TEXT, tokenizer)):  # the text of the warm-up is asked too
        check_known(one, prepared.target.vocabulary)
    every: list[Question] = [TokenIds(str(number), "", (tuple(one.tolist()),)) for number, one in enumerate(ids)]
    loaded = Loaded(prepared.target, tokenizer, eos_token_ids(model))
    asked = Asked(GivenQuestions(every, stops), every, every)
    experiment = build_experiment(loaded, asked, Raw, max_new_tokens=limit, decoding=decoding)
    name = str(model.config.name_or_path or type(model).__name__)
    with prepared.in_use(), prepared.at_work():
        found = summaries(experiment, drafters, model=name, benchmark="prompts")
    return pandas.DataFrame([asdict(summary) for summary in found]).drop(columns="run_id")
