"""Times of drafters, and the least time of a step."""
