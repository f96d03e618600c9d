"""One file a baseline drafter."""
