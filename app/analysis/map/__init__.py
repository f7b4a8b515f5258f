"""Analysis of one fitted map."""
