"""Drafters of serving engines, as the engines draft."""
