"""Models of a target column, a file each."""
