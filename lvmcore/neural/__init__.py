"""Encoder and decoder networks, and the base of the autoencoders."""
