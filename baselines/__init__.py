"""Peers, one file each: tokens/, logits/ and heads/, by what they read to draft."""
