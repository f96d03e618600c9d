"""A GGUF file of a tiny random Qwen2, as published files are: weights in blocks of 4 bits, and the tokenizer."""

from pathlib import Path

import gguf
import numpy as np
from transformers.convert_slow_tokenizer import bytes_to_unicode

HIDDEN = 32
"""The size of everything but the vocabulary: one block of 4-bit weights."""
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tiny_gguf(path: Path) -> Path:
    """Write it; the vocabulary is the 256 bytes, one merge, and Qwen's special tokens."""
    tokens = [*bytes_to_unicode().values(), "th", *SPECIALS]
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL] * len(SPECIALS))
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_chat_template(TEMPLATE)
    rng, half = np.random.default_rng(0), HIDDEN // 2
    blocks = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (half, HIDDEN), "attn_v": (half, HIDDEN)}
    blocks |= dict.fromkeys(("attn_output", "ffn_gate", "ffn_up", "ffn_down"), (HIDDEN, HIDDEN))
    shapes = {f"blk.0.{name}.weight": shape for name, shape in blocks.items()}
    shapes |= {"token_embd.weight": (len(tokens), HIDDEN), "output.weight": (len(tokens), HIDDEN)}
    for name, shape in shapes.items():
        weights = gguf.quantize(rng.normal(size=shape).astype(np.float32), gguf.GGMLQuantizationType.Q4_0)
        writer.add_tensor(name, weights, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))
    for name, size in (("q", HIDDEN), ("k", half), ("v", half)):
        writer.add_tensor(f"blk.0.attn_{name}.bias", np.zeros(size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
