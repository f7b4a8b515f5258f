"""Benchmarks of random-feature latent variable models."""
