"""Jobs: the launcher, the worker processes, and the kinds of run."""
