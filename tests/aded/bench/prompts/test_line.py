import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.bench.prompts.line import question_of, turns_of
from aded.bench.questions import Chat, PlainText, Question, TokenIds
from aded.errors import BadInput

SYSTEM, USER, ASSISTANT = ({"role": role, "content": role[0]} for role in ("system", "user", "assistant"))
CALLS = [{"function": {"name": "add", "arguments": {"a": 1}}}]
CALL: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": CALLS}
TOOL = {"role": "tool", "content": "2"}
ADD = {"type": "function", "function": {"name": "add", "parameters": {}}}


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ({"prompt": "a"}, Question("7", "", ("a",))),
        ({"id": 3, "category": "c", "prompt": "a", "answer": "b"}, Question("3", "c", ("a",))),
        ({"question_id": "x", "turns": ["a", "b"], "category": None}, Question("x", "", ("a", "b"))),
        ({"messages": [USER, USER]}, Question("7", "", ("u", "u"))),
        ({"prompt_ids": [4, 5]}, TokenIds("7", "", ((4, 5),))),
        ({"ids": [4]}, TokenIds("7", "", ((4,),))),
        ({"messages": [SYSTEM, USER]}, Chat("7", "", ((SYSTEM, USER),))),
        ({"messages": [USER], "tools": [ADD]}, Chat("7", "", ((USER,),), (ADD,))),
        ({"messages": [USER, {**TOOL, "name": None}]}, Chat("7", "", ((USER,), (TOOL,)))),
        (
            {"turns": ["a", "b"], "system": "s"},
            Chat("7", "", ((SYSTEM, {**USER, "content": "a"}), ({**USER, "content": "b"},))),
        ),
        ({"prompt": "a", "raw": True}, PlainText("7", "", ("a",))),
        ({"prompt": "a", "turns": None, "messages": None, "tools": [], "raw": False}, Question("7", "", ("a",))),
    ],
)
def test_each_form_of_a_line(line: dict[str, Any], question: Question) -> None:
    assert question_of("x.jsonl line 7", line, "7") == question


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({}, " has no prompt; it must have one of prompt (text), turns (texts), messages"),
        ({"prompt": "a", "messages": [USER]}, " has prompt and messages; it must have one of"),
        ({"turns": "ab"}, ": turns: 'ab' must be a list"),
        ({"prompt_ids": [1, -2]}, ": prompt_ids[1]: -2 must be 0 or more"),
        ({"messages": ["hi"]}, ": messages[0]: 'hi' must be a group of keys"),
        ({"messages": [{"content": "a"}]}, ": messages[0]: role: must be given; it must be a role (system, user"),
        ({"messages": [{"role": "user"}]}, ": messages[0] has no content"),
        ({"messages": [USER, ASSISTANT]}, ": its last message is the assistant's; end with a user's or tool's"),
        ({"prompt": "a", "tools": [ADD]}, " has tools, and prompt in place of messages"),
        ({"messages": [USER], "system": "s"}, " has system, which goes with prompt or turns"),
        ({"prompt": "a", "raw": True, "system": "s"}, " has system, which goes with prompt or turns, and alone"),
    ],
)
def test_an_error_names_the_line_and_what_is_right(line: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(f'benchmark.question_file: x.jsonl line 7{problem}')}"):
        question_of("x.jsonl line 7", line, "7")


@pytest.mark.parametrize(
    ("roles", "lengths"),
    # what the assistant said is given; where it is not, the model says it, after the last of several results
    [("u", [1]), ("su", [2]), ("suau", [4]), ("suu", [2, 1]), ("ucttu", [4, 1]), ("uctau", [5]), ("uttu", [1, 2, 1])],
)
def test_the_model_answers_where_no_answer_is_given(roles: str, lengths: list[int]) -> None:
    messages = [{"s": SYSTEM, "u": USER, "a": ASSISTANT, "c": CALL, "t": TOOL}[role] for role in roles]
    assert [len(turn) for turn in turns_of(messages, "")] == lengths


@given(st.text("suat", max_size=12).map(lambda roles: roles + "u"))
def test_no_message_is_lost_and_no_answer_follows_an_answer(roles: str) -> None:
    messages = [{"s": SYSTEM, "u": USER, "a": ASSISTANT, "t": TOOL}[role] for role in roles]
    turns = turns_of(messages, "")
    assert [message for turn in turns for message in turn] == messages
    assert all(turn[-1]["role"] in ("user", "tool") for turn in turns)
    assert all(turn[0]["role"] != "assistant" for turn in turns[1:])
