"""Likelihoods: probit and softmax classification, the Pólya-gamma family, Poisson."""
