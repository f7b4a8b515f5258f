"""Q-exponential processes: distribution, blocks, collapsed bound, objective."""
