import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from made_up_run import row, write_run

from aded.errors import BadInput
from scripts.bench import serving, soak
from scripts.bench.serving import BenchServingSettings, Replies, compared, latencies, options_of
from scripts.bench.vllm_server import Reply, read_counters

VLLM = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
drafts = "--speculative-config" in sys.argv
tokens = accepted = 0


class Handler(BaseHTTPRequestHandler):
    def answer(self, text):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        counts = {"generation_tokens": tokens, "spec_decode_num_accepted_tokens": accepted}
        self.answer("".join(f"vllm:{name}_total{{}} {count}\\n" for name, count in counts.items()))

    def do_POST(self):
        global tokens, accepted
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        right = job["max_tokens"] > 0 and job["temperature"] == 0 and job["model"] != "another"
        if not right or not job["prompt"]:
            return self.send_error(400)
        if max(job["prompt"]) > 1 << 30:  # found out after the headers
            return self.answer('data: {"error": {"message": "no such token", "code": 400}}\\n\\n')
        tokens += job["max_tokens"]
        accepted += drafts * (job["max_tokens"] - 1) // 2
        lines, done = [], 0
        while done < job["max_tokens"]:
            done += 1 + (drafts and done > 0)
            text = str(sum(job["prompt"])) if done == 1 else ""
            piece = {"choices": [{"text": text}], "usage": {"completion_tokens": done}}
            lines.append(f"data: {json.dumps(piece)}\\n\\n")
        last = {"choices": [], "usage": {"completion_tokens": done}}
        self.answer("".join([*lines, f"data: {json.dumps(last)}\\n\\n", "data: [DONE]\\n\\n"]))

    def log_message(self, *_):
        pass


host, port = sys.argv[sys.argv.index("--host") + 1], int(sys.argv[sys.argv.index("--port") + 1])
ThreadingHTTPServer((host, port), Handler).serve_forever()
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "engine" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (package / "api_server.py").write_text(VLLM)
    monkeypatch.setattr("scripts.bench.vllm_server.ROOT", tmp_path / "engine")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "engine"))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("rate", "at_once"), [(None, [2]), pytest.param(200.0, [1, 2], marks=pytest.mark.thorough)])
def test_the_command_measures_each_number_of_requests_at_a_time(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: float | None, at_once: list[int]
) -> None:
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    asked: dict[str, Any] = {"requests": 4, "at_once": at_once, "new_tokens": 9, "rate": rate, "out": str(tmp_path)}
    settings = BenchServingSettings(sys.executable, ["ngram"], datastore="x", **asked)
    serving.run([f"model={folder}"], settings)
    rows = json.loads((tmp_path / "serving.json").read_text())["rows"]
    assert [(row["proposer"], row["at_once"]) for row in rows] == [("ngram", number) for number in at_once]
    for one in rows:
        assert one["accepted_tokens"] == 2.0, "9 tokens, the first from prefill; 4 of 8 accepted in 4 steps"
        assert one["different"] == 0
        assert one["speedup"] == one["tokens_per_second"] / one["without"]
        assert 0 < one["latencies"]["time_to_first_token_ms"]["p50"] <= one["latencies"]["end_to_end_ms"]["p99"]
    assert (tmp_path / "serving.svg").exists()
    assert "first token, p95 ms" in capsys.readouterr().out
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= children, "the servers have ended"
    with pytest.raises(BadInput, match="at_once: 9"):
        serving.run([f"model={folder}"], replace(settings, at_once=[9]))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("proposer", ["aded_backoff", pytest.param("none", marks=pytest.mark.thorough)])
def test_soak_tells_right_answers_from_others(folder: Path, tmp_path: Path, proposer: Any) -> None:
    asked: dict[str, Any] = {"clients": 3, "requests": 4, "new_tokens": 9, "break_every": 0.3}
    given = soak.SoakSettings(sys.executable, proposer, "x", 0.03, out=str(tmp_path), **asked)
    soak.run([f"model={folder}"], given)
    found = json.loads((tmp_path / "soak.json").read_text())
    assert found["counts"].keys() == {"right", "malformed and refused", "broken off"}
    assert found["latencies"]["end_to_end_ms"]["p50"] > 0
    assert 0.5 < found["memory_growth"] < 2


def test_a_python_without_vllm_is_one_line(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"python: vLLM's server does not start: .*vllm"):
        serving.run([f"model={folder}"], BenchServingSettings(sys.executable, ["ngram"], datastore="x"))


def test_counters_are_summed_over_their_labels() -> None:
    page = """# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 40.0
vllm:spec_decode_num_accepted_tokens_total{engine="1"} 10.0
python_gc_objects_collected_total{generation="0"} 5.0
"""
    assert read_counters(page) == {"generation_tokens": 100.0, "spec_decode_num_accepted_tokens": 50.0}


def replies(*texts: str) -> list[Reply]:
    """Each of three pieces: a token after 1 s, two together after 2, one after 2.5."""
    return [Reply(text, np.array([1, 2, 1]), np.array([1.0, 2.0, 2.5])) for text in texts]


def test_accepted_tokens_leave_out_prefill() -> None:
    counts = {"spec_decode_num_accepted_tokens": 60.0, "spec_decode_num_draft_tokens": 80.0}
    drafting = Replies(replies("a", "b", "c", "d"), 2.0, {"generation_tokens": 104.0, **counts})
    plain = Replies(replies("a", "b", "x", "d"), 4.0, {"generation_tokens": 104.0})
    found = compared(drafting, plain)
    assert (found["accepted_tokens"], found["drafted_tokens"], found["speedup"]) == (100 / 40, 80 / 40, 2.0)
    assert found["different"] == 1
    assert plain.accepted_tokens == 1.0


def test_latencies_are_those_of_a_reader_of_the_stream() -> None:
    """Tokens that arrive together share the time since those before them."""
    medians = {name: percentiles["p50"] for name, percentiles in latencies(replies("a")).items()}
    first, whole = medians["time_to_first_token_ms"], medians["end_to_end_ms"]
    assert (first, medians["inter_token_latency_ms"], medians["step_latency_ms"], whole) == (1000, 500, 750, 2500)


def test_each_proposer_has_its_options(tmp_path: Path) -> None:
    ours = options_of("aded_backoff_full", "f.ngrams", 4)
    assert json.loads(ours[1])["model"] == "aded.engines.vllm.Proposer"
    assert json.loads(ours[3]) == {"aded": {"datastore": "f.ngrams", "cost": "none"}}
    assert json.loads(options_of("aded_backoff", "f", 4)[3])["aded"]["cost"] == "measured"
    assert json.loads(options_of("suffix", "f", 4)[1]) == {"method": "suffix", "num_speculative_tokens": 4}
    write_run(tmp_path / "run", [row(81, 0, [1, 4]), row(82, 0, [2, 1])])
    profile = json.loads(options_of("profile", "f.ngrams", 4, str(tmp_path / "run"))[1])
    assert profile["model"] == "aded.engines.vllm.Proposer"
    assert profile["rejection_sample_method"] == "synthetic", "drafts are accepted as often as the run's"
    assert profile["synthetic_acceptance_rates"] == [0.5, 0.25, 0.25, 0.0]
    with pytest.raises(BadInput, match="profile"):
        BenchServingSettings(python="python", proposers=["profile"])
