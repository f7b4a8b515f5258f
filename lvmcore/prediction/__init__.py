"""A fitted model applied to a dataset or a new table."""
