"""How the files of results/ are made and rebuilt; each is run as `python -m scripts.results.NAME`."""

from __future__ import annotations
