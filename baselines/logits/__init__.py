"""Peers that also read the target's logits."""
