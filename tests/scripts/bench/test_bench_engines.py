import json
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from tiny import save_model, tiny_model

from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.identity import file_fingerprint
from scripts.bench.engines import BenchEnginesSettings, common, half, models_for, row, run, weights_of, write_gguf
from scripts.bench.other_engines.worker import timed

pytestmark = pytest.mark.thorough


@pytest.fixture
def model(tmp_path: Path) -> str:
    model = tiny_model(vocab_size=128, max_position_embeddings=4096).bfloat16()
    return f"model={save_model(tmp_path / 'model', model)}"


def test_the_command_ends_in_a_line_of_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    methods, theirs = ["autoregressive", "prompt_lookup"], ["transformers, bf16", "transformers, bf16, prompt lookup"]
    settings = BenchEnginesSettings(["transformers"], methods=methods, prompts=2, new_tokens=12)
    run([model, "engine=eager", "model.dtype=float32"], settings)
    engines = json.loads(capsys.readouterr().out.splitlines()[-1])["engines"]
    assert engines.keys() == {f"ours, {name}" for name in methods} | {*theirs}
    assert all(each["tokens_per_second"] > 0 for each in engines.values())
    assert [engines[f"ours, {name}"]["same"] for name in methods] == [1, 1]
    assert engines["ours, autoregressive"]["ratio"] == 1


def test_what_cannot_be_compared_is_one_line(model: str, tmp_path: Path) -> None:
    file = str(gguf_file(tmp_path / "q8.gguf"))
    settings = BenchEnginesSettings(["openvino"], gguf=file, weights=["own"], methods=["autoregressive"], prompts=1)
    with pytest.raises(BadInput, match="engines: openvino does not run in "):
        run([model, "engine=eager"], settings)
    with pytest.raises(BadInput, match="gguf: must be given"):
        models_for("llama_cpp", compose_config([model]), BenchEnginesSettings())
    with pytest.raises(BadInput, match="methods"):
        BenchEnginesSettings(methods=["prompt_lookup"])


def test_each_kind_of_weights_is_a_file(tmp_path: Path) -> None:
    own = gguf_file(tmp_path / "own.gguf")
    settings = BenchEnginesSettings(gguf=str(own), weights=["own", "f16"])
    files = models_for("llama_cpp", compose_config([f"paths.cache={tmp_path}"]), settings)
    assert files == {"q8_0": str(own), "f16": str(tmp_path / "models" / f"own-{file_fingerprint(own)}-f16.gguf")}
    assert weights_of(Path(files["f16"])) == "f16"
    assert models_for("llama_cpp", compose_config(["model=qwen2.5-coder-0.5b"]), replace(settings, weights=[])) == {}


def test_a_row_has_the_ratio_of_each_prompt_and_the_tokens_that_are_the_same() -> None:
    ours = [{"ids": [1, 2, 3, 4], "seconds": 1.0}, {"ids": [5, 6, 7, 8], "seconds": 3.0}]
    other = [{"ids": [1, 2, 3, 4], "seconds": 2.0}, {"ids": [5, 6, 0, 8], "seconds": 3.0}]
    found = row(other, ours)
    assert found["tokens_per_second"] == pytest.approx(6 / 5)
    assert (found["ratio"], found["low"], found["high"]) == (0.75, 0.625, 0.875)
    assert found["same"] == 0.75
    assert row([{"error": "none here"}], ours) == {"error": "none here"}
    assert [common([1, 2, 3], other) for other in ([1, 2, 3], [1, 0, 3], [0, 2, 3])] == [3, 1, 0]


def test_seconds_are_those_of_decoding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 7.0])
    monkeypatch.setattr("scripts.bench.other_engines.worker.perf_counter", lambda: next(clock))
    answered = timed(lambda ids, new_tokens, speculate: [0] * new_tokens, [1], 3, False)
    assert answered == {"ids": [0] * 3, "seconds": 3.0}


NUMBERS = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
PACKED = gguf.quantize(NUMBERS, gguf.GGMLQuantizationType.Q8_0)


def gguf_file(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(99)
    writer.add_token_list(["a", "b"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tensor("wide", PACKED, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("norm", NUMBERS[0])
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


@pytest.mark.parametrize("weights", ["f16", "q8_0"])
def test_a_gguf_file_gets_other_weights_and_keeps_the_rest(tmp_path: Path, weights: str) -> None:
    written = tmp_path / "other.gguf"
    write_gguf(gguf_file(tmp_path / "own.gguf"), written, weights)
    assert weights_of(written) == weights
    read = gguf.GGUFReader(written)
    assert read.fields["llama.context_length"].contents() == 99
    assert read.fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    wide, norm = read.tensors
    ours = half(gguf.dequantize(PACKED, gguf.GGMLQuantizationType.Q8_0))
    assert wide.tensor_type == gguf.GGMLQuantizationType[weights.upper()]
    assert gguf.dequantize(wide.data, wide.tensor_type) == pytest.approx(ours, abs=0.01 if weights == "q8_0" else 0)
    assert np.array_equal(norm.data, NUMBERS[0])
