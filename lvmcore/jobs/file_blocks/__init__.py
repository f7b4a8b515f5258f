"""Fitted models applied to the rows of registered files, block by block."""
