"""Gaussian process latent variable models whose positions are point estimates."""
