"""Bundled, simulated and paper datasets."""
