"""The table of runs, and what is shown of it: summary, ranking, comparisons, parts of hybrids."""
