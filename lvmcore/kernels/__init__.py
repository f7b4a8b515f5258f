"""Covariance functions, their sums and products, and their expectations under q(X)."""
