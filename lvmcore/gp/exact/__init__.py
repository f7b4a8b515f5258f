"""Exact Gaussian process regression: what prediction takes beside the optimum of the fit."""
