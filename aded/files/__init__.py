"""File formats: JSON lines, answers, packs, tokenizers; fingerprints, the cache, writing whole or not at all."""
