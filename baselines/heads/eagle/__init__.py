"""EAGLE-1, EAGLE-2 and EAGLE-3: a decoder layer that continues the target's own features."""
