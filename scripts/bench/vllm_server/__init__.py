"""vLLM's server started, asked and measured."""
