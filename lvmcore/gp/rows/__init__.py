"""q(X) of the rows of a fit: in this process, or in shards."""
