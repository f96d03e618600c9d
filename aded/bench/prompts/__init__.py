"""Benchmarks whose questions are rows of a file or of a dataset on the Hub."""
