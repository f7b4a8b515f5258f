"""The map with its controls, its point and its selection."""
