"""File formats: JSON lines, answers, packs, tokenizers; the cache, writing whole or not at all."""
