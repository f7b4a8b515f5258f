"""Rows of a benchmark, their report, and their provenance."""
