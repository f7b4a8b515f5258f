"""Gaussian process latent variable models whose columns have likelihoods of their own."""
