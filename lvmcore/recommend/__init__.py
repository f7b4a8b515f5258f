"""Recommended models for a table or a target, each with its reason."""
