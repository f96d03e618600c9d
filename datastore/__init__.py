"""Readers of corpora, and the builders of datastore files."""
