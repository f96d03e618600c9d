"""Datastore files: n-grams or suffixes of a corpus, memory-mapped and verified block by block."""
