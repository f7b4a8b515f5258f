"""The rows of a sparse Gaussian process in shards."""
