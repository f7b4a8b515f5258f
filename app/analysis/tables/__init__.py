"""Columns, runs and model cards as tables."""
