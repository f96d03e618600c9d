"""What a run leaves: rows, summary, metrics, its folder and config, and reasons to doubt a speedup."""
