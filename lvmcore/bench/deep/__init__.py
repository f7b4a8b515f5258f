"""Benchmarks of deep Gaussian and q-exponential processes."""
