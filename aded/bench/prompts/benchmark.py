"""A benchmark whose questions are the rows of a file: one's own prompts, or a dataset of the Hub."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

from aded.bench.prompts.line import QUESTIONS_KEY, READ, note_ignored, question_of
from aded.bench.questions import Question
from aded.errors import BadInput, first_line
from aded.files.compressed import parquet_rows
from aded.files.json_lines import json_lines
from aded.files.models.tokenizer import cut_at
from aded.settings import FilePath, Text

log = logging.getLogger(__name__)


class PromptBenchmark:
    """Questions from rows.

    question_file: a file of JSON lines or Parquet; None: the files of the dataset.
    dataset, revision, files, licence: its id on the Hub, a commit (the branch `main` may change between runs), its
        files there, and what they may be used for.
    prompts: the question's text, with a row's fields in braces; of several texts, the first whose fields the row has.
        A list in a field becomes one line each. None at all: rows have the form of aded.bench.prompts.line.
    id, category: with `prompts`, the fields that hold them. None: the number of the row, of several files with the
        file's name before it, and no category.
    reference: the field with the right answer, which goes into samples.jsonl; None: no samples are written.
    left_out: how texts begin in whose place the dataset has nothing; such a file is refused.
    stop_strings: an answer ends before the first of them.
    """

    raw = False

    def __init__(
        self,
        question_file: FilePath | None,
        *,
        dataset: Text | None = None,
        revision: Text = "main",
        files: Sequence[Text] = (),
        licence: Text = "not stated",
        prompts: Sequence[Text] = (),
        id: Text | None = None,
        category: Text | None = None,
        reference: Text | None = None,
        left_out: Text | None = None,
        stop_strings: Sequence[Text],
    ) -> None:
        self.stop_strings = tuple(stop_strings)
        self._fields = {"id": id, "category": category}
        self._reference = reference
        self._forms = [_Form(each) for each in prompts]
        if question_file is None and dataset is None:
            raise BadInput(QUESTIONS_KEY, "must be given: a file of JSON lines or Parquet")
        paths = (
            [question_file] if question_file else [hub_file(str(dataset), revision, each, licence) for each in files]
        )
        found: dict[str, Question] = {}
        for where, question in self._asked(paths):
            if question.id in found:
                raise BadInput(QUESTIONS_KEY, f"{where}: question {question.id} appears twice")
            if left_out and any(str(turn).startswith(left_out) for turn in question.turns):
                raise BadInput(
                    QUESTIONS_KEY,
                    f"{where}: the text of question {question.id} is left out; let {dataset}'s own program fill it "
                    f"in (docs/benchmarks.md), and give the new file: {QUESTIONS_KEY}=FILE",
                )
            found[question.id] = question
        if not found:
            raise BadInput(QUESTIONS_KEY, f"{question_file or dataset} holds no question")
        self._questions = list(found.values())

    def questions(self) -> list[Question]:
        return self._questions

    def sample(self, question: Question, answer: str) -> dict[str, object] | None:
        """{id, answer, reference}: `aded score` compares the two. None without a reference."""
        if self._reference is None:
            return None
        text = cut_at(answer, self.stop_strings)
        return {"id": question.id, "answer": text, "reference": question.references[0]}

    def _asked(self, paths: Sequence[str]) -> Iterator[tuple[str, Question]]:
        """("FILE line N", the question there) of each line of the files."""
        for path in paths:
            keys = set[str]()
            for where, row in rows_of(path):
                keys |= row.keys()
                number = where.rpartition(" ")[2]
                yield where, self._question(where, row, number if len(paths) == 1 else f"{Path(path).stem} {number}")
            if not self._forms:  # what a form leaves out is left out on purpose
                note_ignored(keys - READ - {self._reference}, path)

    def _question(self, where: str, row: Mapping[str, Any], name: str) -> Question:
        """name: of a question without an id."""
        if self._forms:
            fields = {key: _needed(where, row, field) for key, field in self._fields.items() if field}
            question = question_of(where, {"prompt": self._text(where, row), **fields}, name)
        else:
            question = question_of(where, row, name)
        if self._reference:
            return replace(question, references=(_needed(where, row, self._reference),))
        return question

    def _text(self, where: str, row: Mapping[str, Any]) -> str:
        form = next((each for each in self._forms if all(map(partial(_text_of, row), each.fields))), self._forms[-1])
        return form.text.format(**{field: _needed(where, row, field) for field in form.fields})


class _Form:
    """A text with fields in braces. Raises BadInput where it is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise BadInput("benchmark.prompts", f"{text!r}: {error}; a brace itself is written twice") from None
        self.fields = [field for _, field, _, _ in parts if field is not None]
        is_plain = all(not (form or conversion) for _, _, form, conversion in parts)
        if not self.fields or not is_plain or not all(field.isidentifier() for field in self.fields):
            raise BadInput("benchmark.prompts", f"{text!r} must name fields of a row in braces, such as {{question}}")


def _text_of(row: Mapping[str, Any], field: str) -> str:
    """A field as text; empty where the row has none."""
    value = row.get(field)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    return str(value) if isinstance(value, str | int | float) else ""


def _needed(where: str, row: Mapping[str, Any], field: str) -> str:
    if not (text := _text_of(row, field)):
        raise BadInput(QUESTIONS_KEY, f"{where} has no text {field}; a row of this benchmark must have one")
    return text


def rows_of(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line N", row) of each line; in a Parquet file, "FILE row N". Raises BadInput naming the place."""
    if path.endswith(".parquet"):
        return ((f"{path} row {number}", row) for number, row in enumerate(parquet_rows(path, QUESTIONS_KEY), 1))
    return json_lines(path, QUESTIONS_KEY)


def hub_file(dataset: str, revision: str, file: str, licence: str) -> str:
    """The path of a dataset's file, downloaded unless it was before. Raises BadInput.

    Files of the Hub are named one by one and pinned to a commit, in place of `datasets.load_dataset`: what is
    downloaded once is there without network for ever, no other split comes along, and a file from elsewhere is read
    alike.

    dataset: its id on the Hub.
    revision: a commit.
    licence: of the dataset, which is named before a download.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    get = partial(hf_hub_download, dataset, file, revision=revision, repo_type="dataset")
    try:
        try:
            return str(get(local_files_only=True))
        except LocalEntryNotFoundError:
            log.warning("downloading %s of %s; its licence: %s", file, dataset, licence)
            return str(get())
    except Exception as error:  # offline, gated and missing files raise errors of many libraries
        raise BadInput(
            QUESTIONS_KEY,
            f"{file} of the dataset {dataset} (commit {revision[:7]}) cannot be had from the Hub "
            f"({first_line(error)}); download it elsewhere and give it: {QUESTIONS_KEY}=FILE",
        ) from None
