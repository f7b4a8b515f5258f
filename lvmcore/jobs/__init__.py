"""Jobs: the worker processes, the launcher, and what each kind of job does."""
