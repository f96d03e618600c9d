"""What followed a context, counted: in the corpus, in the text, for each token alone."""
