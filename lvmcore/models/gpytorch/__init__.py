"""Models of gpytorch as models of this package."""
