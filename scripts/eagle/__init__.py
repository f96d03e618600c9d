"""How a head of EAGLE learns."""
