"""A tiny random model of every causal language model that the installed transformers can build.

The families are found in transformers' own table, so a new release adds its own. Their configs are made small by the
names of their settings; SPECIAL says what a family needs beside that.
"""

import dataclasses
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCABULARY, CONTEXT, WINDOW, SWITCH = 64, 96, 8, 40
MOST_PARAMETERS = 10_000_000
"""A family that stays larger needs an entry in SPECIAL."""


def each(value: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, value)


SMALL: dict[str, Any] = {
    **each(VOCABULARY, "vocab_size", "vocab_size_per_layer_input"),
    **each(CONTEXT, "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_target_positions"),
    **each(WINDOW, "sliding_window", "attention_chunk_size", "window_size"),
    **each(32, "hidden_size", "d_model", "n_embd", "emb_dim", "embed_dim", "embedding_size", "moe_intermediate_size"),
    **each(64, "intermediate_size", "ffn_dim", "n_inner", "decoder_ffn_dim", "encoder_ffn_dim", "ffn_hidden_size"),
    **each(4, "num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "encoder_layers"),
    **each(4, "num_attention_heads", "n_head", "num_heads", "n_heads", "num_encoder_layers", "num_decoder_layers"),
    **each(4, "decoder_attention_heads", "encoder_attention_heads"),
    **each(4, "num_experts", "num_local_experts", "n_routed_experts"),
    **each(2, "num_key_value_heads", "num_experts_per_tok", "n_group"),
    **each(8, "head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "hidden_size_per_layer_input"),
    **each(16, "kv_lora_rank", "q_lora_rank"),
    **each(0.5, "initializer_range", "init_std"),  # so that answers vary
    "topk_group": 1,
    "is_decoder": True,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
LATENT = {"num_key_value_heads": 4}
LAYERS = ["sliding_attention", "full_attention"]
SHARED = {"num_hidden_layers": 6, "num_kv_shared_layers": 2, "layer_types": LAYERS * 3}
ROTARY = {"rope_type": "default", "rope_theta": 1e4}
SPECIAL: dict[str, dict[str, Any]] = {
    **each(LATENT, "axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu"),
    "bamba": {"mamba_n_heads": 8, "attn_layer_indices": [1, 3]},
    "codegen": {"rotary_dim": 4},
    "cohere_compass_text": {"layer_types": LAYERS * 2, "rope_parameters": each(ROTARY, *LAYERS)},
    "dots1": {"n_shared_experts": 1},
    "gemma3n_text": {**SHARED, "laurel_rank": 8},
    "gemma4_text": {**SHARED, "global_head_dim": 8},
    "gemma4_unified_text": SHARED,
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"mamba_n_heads": 8},
    "kimi_linear": {**LATENT, "linear_head_dim": 8, "linear_num_heads": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "longcat_flash": {**LATENT, "expert_ffn_hidden_size": 32, "moe_topk": 2, "zero_expert_num": 2},
    "mamba2": {"num_heads": 8},
    "reformer": {
        **{"attn_layers": ("local", "lsh"), "attention_head_size": 8, "feed_forward_size": 64},
        **{"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (8, 12)},
    },
    "roc_bert": {
        **each(8, "pronunciation_embed_dim", "shape_embed_dim"),
        **each(64, "pronunciation_vocab_size", "shape_vocab_size"),
    },
    "xlm": {"causal": True},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 2},
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
}
# Variants beside each family's own: name -> (family, settings).
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "original_max_position_embeddings": SWITCH,
    "short_factor": [1.0, 1.2, 1.5, 2.0],
    "long_factor": [4.0, 6.0, 8.0, 12.0],
    "factor": 4.0,
}
LONG = {"rope_parameters": LONG_ROPE, "original_max_position_embeddings": SWITCH}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "falcon, ALiBi": ("falcon", {"alibi": True}),
    "falcon, new decoder": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "gpt_bigcode, many heads": ("gpt_bigcode", {"multi_query": False}),
    "llama, dynamic": ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    "llama, longrope": ("llama", LONG),
    "minicpm3, longrope": ("minicpm3", LATENT | LONG),
    "mistral, longrope": ("mistral", LONG),
    "phi3, longrope": ("phi3", LONG),
    "phi3, longrope, no window": ("phi3", LONG | {"sliding_window": None}),
    "phi4_multimodal, longrope": ("phi4_multimodal", LONG),
    "phimoe, longrope": (
        "phimoe",
        {"rope_parameters": LONG_ROPE | {"short_mscale": 1.1, "long_mscale": 1.3}} | each(SWITCH, *list(LONG)[1:]),
    ),
    "qwen2, windows": ("qwen2", {"use_sliding_window": True, "max_window_layers": 2}),
    "qwen3, longrope": ("qwen3", LONG),
    "starcoder2, no window": ("starcoder2", {"sliding_window": None}),
}


def names() -> list[str]:
    """Every family by its model type, then the variants."""
    return [*sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), *sorted(VARIANTS)]


def tiny_config(kind: type[PreTrainedConfig], **more: Any) -> PreTrainedConfig:
    """The smallest config of its kind, its parts small too."""
    known = {field.name for field in dataclasses.fields(kind)}
    settings = {name: value for name, value in SMALL.items() if name in known}
    settings |= {name: value for name, value in SPECIAL.get(kind.model_type, {}).items() if name not in more}
    whole = kind() if kind.sub_configs else None
    for name in kind.sub_configs:
        part = getattr(whole, name, None)
        if isinstance(part, PreTrainedConfig):
            settings[name] = tiny_config(type(part))
    return kind(**settings | more)


def tiny_family(name: str) -> PreTrainedModel:
    """The random float32 model of a family or variant. Raises whatever its code raises."""
    family, more = VARIANTS.get(name, (name, {}))
    config = tiny_config(CONFIG_MAPPING[family], **more)
    with torch.device("meta"):
        parameters = sum(one.numel() for one in AutoModelForCausalLM.from_config(config).parameters())
    if parameters > MOST_PARAMETERS:
        raise ValueError(f"{parameters:,} parameters in its smallest config")
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():  # so that our kernels, which hold weights in bfloat16, take part
        parameter.data = parameter.data.bfloat16().float()
    return model.eval()
