"""One fit over many processes: sums over blocks of rows, and parameters that stay beside them."""
