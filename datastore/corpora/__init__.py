"""Corpora: where their documents come from."""
