"""The Missing cells page."""
