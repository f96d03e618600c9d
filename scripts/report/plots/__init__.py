"""Plots of cells; each function returns a figure, or None where the rows for it are missing."""
