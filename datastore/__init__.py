"""Corpus readers and the builders of datastores."""
