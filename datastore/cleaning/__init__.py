"""Clean corpora: which conversations a datastore is not built from, and which questions of benchmarks are in it."""
