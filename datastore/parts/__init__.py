"""An n-gram file built by a job for each part of the corpus, also on a cluster."""
