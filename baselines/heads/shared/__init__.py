"""What several kinds of heads share: their target's layers, and how their published files are read."""
