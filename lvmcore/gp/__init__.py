"""Sparse Gaussian process latent variable models: paths, bounds, inference of new rows."""
