"""Runs: jobs on disk, each with its own folder, and the store that holds them.

Importing this package loads neither torch nor the models.
"""

from lvmcore.runs.job import Job, JobSpec
from lvmcore.runs.store import Store

__all__ = ["Job", "JobSpec", "Store"]
