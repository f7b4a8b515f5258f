"""Long runs of random trials, each with a seed and a report."""
