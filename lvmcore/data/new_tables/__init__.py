"""New tables matched to the features of a fitted model."""
