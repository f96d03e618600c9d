"""Peers, one file each: tokens/, logits/, heads/ and draft_models/, by what they read to draft."""
