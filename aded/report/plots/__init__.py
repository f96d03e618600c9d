"""Plots of the table of runs; each function returns a figure, or None where the rows for it are missing."""
