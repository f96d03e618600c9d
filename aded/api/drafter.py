"""`aded.drafter`: any method by its name, for every use: alone, with a model, in transformers, in a replay."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.api.shared import SharedDrafter
from aded.config.methods import KINDS, NGRAMS, checked_method, datastore_kinds, kind_of, method_config
from aded.core.drafter import Drafter
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
from aded.files.datastores.ngram_file import no_ngrams
from aded.files.places import cache_folder
from aded.identity import tokenizer_fingerprint

if TYPE_CHECKING:
    from aded.files.models.tokenizer import AnyTokenizer


class NamedDrafter(SharedDrafter):
    """A method with a name. It is made at once, and set up for the model that it is used with."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Drafter],
        datastore: ArrayFile | None = None,
        *,
        given: Drafter | None = None,
    ) -> None:
        """make: a new object of the method, which reads `datastore`. given: one that was made elsewhere."""
        super().__init__(name, make() if given is None else given, given=given is not None)
        self._make, self.datastore = make, datastore

    def fresh(self) -> NamedDrafter:
        """The same method with the same settings, which has learned nothing. Raises BadInput."""
        with self.in_use():  # it is not copied while it learns
            return NamedDrafter(self.name, self._make, self.datastore)

    def check_tokenizer(self, tokenizer: AnyTokenizer) -> None:
        """Raise BadInput unless datastore and drafts are of this tokenizer."""
        if self.datastore is not None and "tokenizer" in self.datastore.header:
            self.datastore.check_tokenizer(tokenizer_fingerprint(tokenizer))
        super().check_tokenizer(tokenizer)

    def generate(self, model: Any, input_ids: Any, *, streamer: Any = None, **settings: Any) -> Any:
        """For transformers: model.generate(..., custom_generate=drafter.generate). See aded.api.custom_generate."""
        from aded.api.custom_generate import custom_generate

        tokens = self.datastore.vocabulary if self.datastore and "tokenizer" in self.datastore.header else 0
        if tokens > (most := model.config.get_text_config(decoder=True).vocab_size):
            raise BadInput(
                "drafter", f"{self.name}'s datastore has {tokens} tokens, the model {most}: it is another's"
            )
        given = arguments_of_generate(model)
        if given.get("assistant_model") is not None:
            raise BadInput(
                "assistant_model", "drafts too, and so does the drafter of custom_generate; give one of them"
            )
        if given.get("synced_gpus"):
            raise BadInput(
                "synced_gpus", "waits for the others after each token, and a drafter does not; leave it out"
            )
        return custom_generate(self, model, input_ids, streamer or given.get("streamer"), **settings)


def arguments_of_generate(model: Any) -> Mapping[str, Any]:
    """What `model.generate`, which is on its way, was called with: transformers 5 hands streamer and assistant model
    to no function that it calls. However many functions of the user's stand between."""
    from transformers import GenerationMixin

    code, frame = inspect.unwrap(GenerationMixin.generate).__code__, inspect.currentframe()
    while frame is not None:
        if frame.f_code is code and frame.f_locals.get("self") is model:
            return frame.f_locals
        frame = frame.f_back
    return {}


def drafter(name: str | Drafter, *, datastore: Any = None, **settings: Any) -> NamedDrafter:
    """A drafter. Raises BadInput naming the wrong name or setting.

    name: of a method (docs/methods.md), of one in another installed package, or a drafter of your own, which then has
        `generate` too.
    datastore: the file of a corpus for methods that read one, or such a file opened; None: no corpus.
    settings: those of the method's config (conf/method/NAME.yaml); a group may be given in part.
    """
    if isinstance(name, Drafter):
        if settings or datastore is not None:
            raise BadInput("drafter", "is made already: it takes no settings")
        return as_drafter(name)
    config = method_config(name, settings)
    if datastore is not None and not datastore_kinds(config):
        config["datastore_kind"] = kind_of(datastore) or NGRAMS
    opened = {kind: _opened(datastore, kind, name) for kind in datastore_kinds(config)}
    method = checked_method(config)

    def make() -> Drafter:
        return method.make(opened.__getitem__, str(cache_folder()))

    return NamedDrafter(str(config.get("name", name)), make, next(iter(opened.values()), None))


def _opened(datastore: Any, kind: str, name: str) -> ArrayFile:
    """The datastore, of the kind that the method reads. Raises BadInput."""
    if datastore is None:
        if kind != NGRAMS:
            raise BadInput("datastore", f"must be given: {name} drafts from a suffix file (aded build)")
        return no_ngrams()
    wanted = KINDS[kind]
    if isinstance(datastore, str | Path):
        return wanted.open(datastore)
    if not isinstance(datastore, wanted.opened):
        raise BadInput("datastore", f"{name} reads a file of {kind}, or one opened: {wanted.opened.__name__}")
    return datastore


def _copied(given: Drafter) -> Drafter:
    """A drafter with the same settings, which has learned nothing. Raises BadInput."""
    # Files and models stay one.
    shared = {id(one): one for one in vars(given).values() if isinstance(one, ArrayFile) or hasattr(one, "provides")}
    try:
        copied = copy.deepcopy(given, shared)
    except Exception as error:  # whatever a class of somebody else's does when it is copied
        raise BadInput(
            "drafter", f"{type(given).__name__} cannot be copied ({error}); give it __deepcopy__"
        ) from error
    copied.reset()
    return copied


def as_drafter(given: str | Drafter | None) -> NamedDrafter:
    """A method by its name, a drafter as it is, or none: autoregressive decoding. Raises BadInput."""
    if isinstance(given, NamedDrafter):
        return given
    if isinstance(given, Drafter):
        return NamedDrafter(type(given).__name__, partial(_copied, given), given=given)
    if given is None or isinstance(given, str):
        return drafter(given or "autoregressive")
    raise BadInput("drafter", f"{type(given).__name__} is neither the name of a method nor an aded.Drafter")
