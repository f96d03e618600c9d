"""Times of drafters, of large datastores, and the least time of a step."""
