"""The Generate page."""
