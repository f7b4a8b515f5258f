"""Latent variable models in closed form or by expectation maximisation, without torch modules."""
