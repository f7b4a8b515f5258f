"""Exact Gaussian process regression: the fitted function, with the uncertainty of parameters."""
