"""The optimisation loop, checkpoints, mini-batches and snapshots."""
