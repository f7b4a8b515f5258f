"""Figures about fits, each with its protocol."""
