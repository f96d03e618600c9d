"""The workshop: what maintainers measure, rebuild and train, from a checkout. It is not installed."""
