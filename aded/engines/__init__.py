"""Drafters inside serving engines."""
