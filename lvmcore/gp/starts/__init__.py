"""Fits from several initial maps: one start, and which of them is kept."""
