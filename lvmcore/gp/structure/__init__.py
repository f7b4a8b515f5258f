"""The structure of a Gaussian process that is a sum: its parts, their search and their names."""
