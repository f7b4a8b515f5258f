"""Evaluation of fits: metrics, each with its protocol."""
