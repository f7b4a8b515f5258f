"""The New rows page."""
