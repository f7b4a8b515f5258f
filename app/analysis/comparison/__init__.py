"""Analysis of several maps."""
