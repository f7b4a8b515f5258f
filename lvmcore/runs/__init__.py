"""Runs: fits that are kept, each in a process of its own and in a folder of its own.

Importing this package loads neither torch nor the models.
"""

from lvmcore.runs.job import Job, JobSpec
from lvmcore.runs.store import Store

__all__ = ["Job", "JobSpec", "Store"]
