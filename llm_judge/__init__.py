"""MT-Bench and Alpaca: questions, prompt templates, answer files, judging."""
