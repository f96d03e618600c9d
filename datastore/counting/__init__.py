"""N-grams counted in bounded memory."""
