"""Numerical methods without models: factorisations, quadratic forms, BFGS, random draws."""
