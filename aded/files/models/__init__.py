"""Files of models: weights and tokenizers, from a GGUF file, the Hub or a folder."""
