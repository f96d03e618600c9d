"""Planted faults, and a survey of the tests that find them."""
