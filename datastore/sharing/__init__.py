"""Datastores published to a folder or the Hub, and fetched block by block."""
