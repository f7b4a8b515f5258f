"""Conditions on columns that filter the rows of a map: their bars, counts, terms and queries."""
