"""Peers: tokens/, logits/, heads/ and draft_models/, by what they read to draft, and engines/, as engines draft."""
