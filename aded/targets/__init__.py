"""Engines that run a model: eager, compiled, CUDA graphs, without weights."""
