"""What is fetched: others' questions, recorded answers, corpora, tokenizers and models."""
