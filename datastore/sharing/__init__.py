"""Datastores published to a folder or the Hub, and fetched from there."""
