"""Deep Gaussian processes with noise inputs by importance-weighted variational inference."""
