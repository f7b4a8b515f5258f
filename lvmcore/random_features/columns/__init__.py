"""Random features with a likelihood for each column."""
