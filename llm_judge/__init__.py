"""MT-Bench, Alpaca and Spec-Bench: questions, prompt templates, and answer files for FastChat's judge."""
