"""Latent variable models on random Fourier features."""
