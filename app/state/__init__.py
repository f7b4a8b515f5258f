"""Session state and the address: the only package with session keys and query parameters."""
