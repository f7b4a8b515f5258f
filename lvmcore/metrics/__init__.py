"""Scores of maps and predictions, each with its protocol."""
