"""The Latent page."""
