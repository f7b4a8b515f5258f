"""Models of a map whose rows have point estimates of their positions, one module each."""
