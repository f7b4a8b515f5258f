"""Covariance functions, and their expectations under q(X) (psi statistics)."""
