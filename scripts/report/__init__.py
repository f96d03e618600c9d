"""Records as tables: the ranking, comparisons, published figures."""
