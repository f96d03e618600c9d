"""What the installed transformers calls a model's cache: `cache` since 5.24, `past_key_values` before."""

from __future__ import annotations

from inspect import signature

from transformers import GenerationMixin

_TAKEN = signature(GenerationMixin.prepare_inputs_for_generation).parameters
CACHE = "cache" if "cache" in _TAKEN else "past_key_values"
"""The keyword of models, of their layers, and in what `generate` prepares for them."""
