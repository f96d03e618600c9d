"""The back-off drafter: the sources of its predictions, how it mixes them, what it learns, and its tree search."""
