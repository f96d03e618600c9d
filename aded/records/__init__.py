"""What a run leaves: rows, summary, metrics, its folder and identity, and reasons to doubt a speedup."""
