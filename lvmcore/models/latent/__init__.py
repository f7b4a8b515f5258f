"""Latent variable models, a file each."""
