"""What from_pretrained raises is one line, with advice that helps."""

import json
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from transformers.utils.import_utils import JINJA_IMPORT_ERROR, SENTENCEPIECE_IMPORT_ERROR

from aded.errors import BadInput
from aded.files.models.hub import pretrained


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ImportError(SENTENCEPIECE_IMPORT_ERROR.format("X")), "pip install sentencepiece"),
        (ImportError(JINJA_IMPORT_ERROR.format("X")), "pip install jinja2"),
        (ImportError("requires bitsandbytes: `pip install -U bitsandbytes>=0.46.1`"), "'bitsandbytes>=0.46.1'"),
        (ImportError("requires accelerate: `pip install 'accelerate>=1.1.0'`"), "pip install 'accelerate>=1.1.0'"),
        (ImportError("requires AQLM: `pip install aqlm[gpu,cpu]`"), "pip install 'aqlm[gpu,cpu]'"),
        (ImportError("requires torchao library (`pip install torchao`)"), "pip install torchao"),
        (ModuleNotFoundError("No module", name="no_such.part"), "pip install no_such"),
        (caused(OSError("cannot"), ModuleNotFoundError("No module", name="no_such")), "pip install no_such"),
        # transformers tries tiktoken for what needs sentencepiece.
        (ValueError("`tiktoken` is required to read a `tiktoken` file."), "pip install sentencepiece"),
        (ValueError("Error parsing line b'' in tokenizer.model"), "pip install sentencepiece"),
        (ImportError("cannot import name 'x' from 'torch'", name="torch"), "from 'torch'; install what it names"),
        (ValueError("its type is not known\n`pip install --upgrade transformers`"), "is not known; complete"),
    ],
)
def test_what_is_not_installed_is_named(
    error: Exception, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(BadInput) as refusal:
        pretrained(Mock(from_pretrained=Mock(side_effect=error)), str(tmp_path), "model")
    assert refusal.value.key == "model"
    assert advice in refusal.value.problem
    assert ("not installed" in refusal.value.problem) == advice.startswith(("pip", "'"))


@pytest.mark.parametrize("settings", [{"num_hidden_layers": 10**40}, {"text_config": {"n_routed_experts": 5000}}])
def test_layers_without_end_are_refused_before_they_are_made(settings: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "head_dim": 8192} | settings))
    make = Mock()
    with pytest.raises(BadInput, match=r"^model: .* its config.json says n.*: (1e\+40|5e\+03); no model has"):
        pretrained(Mock(from_pretrained=make), str(tmp_path), "model")
    assert not make.called
