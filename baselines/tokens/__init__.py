"""Peers that read tokens only, so recorded answers measure them exactly."""
