"""The engine every method shares, and the ADED drafter (arXiv 2407.12021)."""

__version__ = "0.1.0"
