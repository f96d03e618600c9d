"""What is fetched: other projects' questions, recorded answers, corpora and tokenizers."""
