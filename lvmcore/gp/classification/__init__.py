"""Exact Gaussian processes to classes."""
