"""FastChat's installed judge and table read an exported file; the judge model is a server of this test."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import forked
import pytest
from made_up_run import row, write_run
from transformers import PreTrainedTokenizerFast

from llm_judge.export import export

pytestmark = pytest.mark.thorough
JUDGE = "gpt-4"
SCORES = {1: 7, 2: 4}
"""The server's scores of first and second turns."""
ONE, TWO = "Q: {question} A: {answer}", "Q: {question_1} A: {answer_1} Q: {question_2} A: {answer_2}"
REFERENCES = {False: "", True: " R: {ref_answer_1}"}


@contextmanager
def judge_server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(address, received requests) of a server with the part of the chat completions protocol that FastChat uses."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, **request})
            turn = request["messages"][-1]["content"].count("Q: ")
            answer = {"message": {"role": "assistant", "content": f"Fair enough. Rating: [[{SCORES[turn]}]]"}}
            body = json.dumps({"choices": [{"index": 0, "finish_reason": "stop", **answer}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def fastchat(script: str, folder: Path, address: str, *arguments: str) -> str:
    environment = os.environ | {"OPENAI_API_BASE": address, "OPENAI_API_KEY": "none", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", f"fastchat.llm_judge.{script}", "--judge-model", JUDGE, *arguments]
    done = forked.run(command, cwd=folder, env=environment, input="\n")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_fastchats_judge_and_table_read_the_answers_unchanged(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    pytest.importorskip("openai", reason="FastChat's judge needs openai < 1: pip install -e '.[judge]'")
    pytest.importorskip("anthropic", reason="FastChat's judge needs anthropic: pip install -e '.[judge]'")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    rows = [
        row(question, turn, [2, 3], token_ids=[question % 40, 6, 7, 8, 9, 10])
        for question in (81, 112)
        for turn in (0, 1)
    ]
    settings = {"model.path": str(tmp_path / "tokenizer"), "paths.cache": str(tmp_path / "cache")}
    run = write_run(tmp_path / "run", rows, answers=None, settings=settings)
    data = tmp_path / "data"
    answers = [
        json.loads(line)
        for line in export(run, out=str(data / "mt_bench" / "model_answer"), model_id="mine").read_text().splitlines()
    ]
    # FastChat's package lacks these files of its repository; `math` needs a reference answer.
    questions = [
        {"question_id": number, "category": category, "turns": ["a cat?", "a rat?"]}
        for number, category in ((81, "writing"), (112, "math"))
    ]
    write_lines(data / "mt_bench" / "question.jsonl", questions)
    reference = {"question_id": 112, "choices": [{"index": 0, "turns": ["a hat", "a mat"]}]}
    write_lines(data / "mt_bench" / "reference_answer" / f"{JUDGE}.jsonl", [reference])
    prompts = [
        {
            "name": f"single{'-math' * math}-v1{'-multi-turn' * later}",
            "type": "single",
            "system_prompt": "Rate.",
            "prompt_template": (TWO if later else ONE) + REFERENCES[math],
            "output_format": "[[rating]]",
        }
        for math in (False, True)
        for later in (False, True)
    ]
    write_lines(data / "judge_prompts.jsonl", prompts)

    with judge_server() as (address, asked):
        fastchat("gen_judgment", tmp_path, address, "--model-list", "mine")
        table = fastchat("show_result", tmp_path, address)
    assert {(one["path"], one["model"]) for one in asked} == {("/v1/chat/completions", JUDGE)}
    shown = [one["messages"][-1]["content"] for one in asked]
    texts = {line["question_id"]: line["choices"][0]["turns"] for line in answers}
    assert shown[0] == f"Q: a cat? A: {texts[81][0]}"
    assert shown[1] == f"Q: a cat? A: {texts[112][0]} R: a hat"
    assert shown[3] == f"Q: a cat? A: {texts[112][0]} Q: a rat? A: {texts[112][1]} R: a hat"
    assert [float(score) for score in re.findall(r"^mine +(?:[12] +)?([\d.]+)$", table, re.MULTILINE)] == [7, 4, 5.5]
