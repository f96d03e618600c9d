"""Fast code for processors."""
