"""Exact Gaussian process regression on many rows, by conjugate gradients in blocks of rows."""
