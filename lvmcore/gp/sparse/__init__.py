"""Sparse Gaussian processes with a given q(u)."""
