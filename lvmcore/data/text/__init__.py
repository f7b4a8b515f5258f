"""Delimited text and JSON as typed columns."""
