"""Deep Gaussian processes: layers, variational inference, SGHMC, sigma points, deep kernels."""
