"""How the scorer of aded_backoff learns."""
