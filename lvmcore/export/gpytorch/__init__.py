"""Export of fitted Gaussian processes as plain gpytorch: source, weights and a script."""
