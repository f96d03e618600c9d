"""How times are taken: of drafters, of batches, in turn, and the least time of a step."""
