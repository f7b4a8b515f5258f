"""Latent variable models, one module per model."""
