"""Plots from the records of runs: python -m scripts.plots FOLDER [FOLDER ...]

Each is drawn when the rows for it exist, as PNG and PDF, into the first folder. There is no reliability diagram: rows
do not hold the probabilities that the drafter gave its nodes.
"""
