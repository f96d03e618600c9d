"""What is learned: heads, scorer, weights of mixing; run as `python -m scripts.train.NAME`."""

from __future__ import annotations
