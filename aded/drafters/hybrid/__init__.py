"""Several drafters as one: their trees merged under one budget, by calibrated probabilities."""
