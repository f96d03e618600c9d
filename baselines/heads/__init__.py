"""Peers with heads trained for the target, on its hidden states."""
