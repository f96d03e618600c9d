"""A small transformer, learned from a corpus, as one more expert."""
