"""Mini-batch fits of Gaussian process latent variable models with an encoder."""
