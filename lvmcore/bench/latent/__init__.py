"""Benchmarks of Gaussian process latent variable models."""
