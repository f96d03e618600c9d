"""Trains the look-up language model of a corpus."""
