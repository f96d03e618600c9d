"""Retrieval: the passages of a corpus that are most like the text so far."""
