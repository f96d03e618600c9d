"""What maintainers measure: kernels, drafting, datastores, other engines; run as `python -m scripts.bench.NAME`."""

from __future__ import annotations
