"""The estimator contracts that every model inherits."""
