"""The model as a GGUF file with weights of 16 or 8 bits, for engines that read no safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from aded.files.atomic import whole_file


def write_gguf(quantised: Path, out: Path, weights: str) -> None:
    """Copy a GGUF file with other weights: f16, the numbers that our model has, or q8_0, those in 8 bits.

    quantised: the file whose 4-bit weights, widened and rounded to bfloat16, are our model's.
    """
    reader = gguf.GGUFReader(quantised)
    fields: dict[str, Any] = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    with whole_file(out) as file:
        writer = gguf.GGUFWriter(file.name, fields.pop("general.architecture").contents())
        for name, field in fields.items():
            if name != "general.file_type":
                inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(name, field.contents(), field.types[0], inner)
        writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{weights.upper()}"])
        for tensor in reader.tensors:
            numbers = gguf.dequantize(tensor.data, tensor.tensor_type)
            if numbers.ndim == 1:
                writer.add_tensor(tensor.name, numbers)
            elif weights == "f16":
                writer.add_tensor(tensor.name, half(numbers))
            else:
                kind = gguf.GGMLQuantizationType[weights.upper()]
                rounded = torch.from_numpy(np.array(numbers, np.float32)).bfloat16().float().numpy()
                writer.add_tensor(tensor.name, gguf.quantize(rounded, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def half(numbers: np.ndarray) -> np.ndarray:
    """float32, rounded to bfloat16 and then to float16."""
    return torch.from_numpy(np.array(numbers, np.float32)).bfloat16().half().numpy()


def weights_of(file: Path) -> str:
    """The name of the weights in a GGUF file, such as q4_k_m."""
    kind = int(gguf.GGUFReader(file).fields["general.file_type"].contents())
    return gguf.LlamaFileType(kind).name.removeprefix("MOSTLY_").lower()
