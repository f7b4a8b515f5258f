"""What reaches a model: standardised rows, observed cells, class labels, the target column."""
