"""Models of a target column, one module per family."""
