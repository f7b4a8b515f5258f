"""Inputs of models: standardised rows, observed cells, class labels, the target column."""
