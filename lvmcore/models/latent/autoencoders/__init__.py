"""Maps by autoencoders, one module each."""
