"""What a run needs of a node: threads, GPUs and memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from lvmcore.distributed.choice import shard_count
from lvmcore.jobs.machine_limits import threads_of_a_fit
from lvmcore.models import REGISTRY
from lvmcore.runs.job import Job

__all__ = ["THREADS", "Requirements", "requirements", "threads_of_a_node"]

#: Environment variable with the threads of a run on a cluster.
THREADS = "LATENTBOARD_CLUSTER_THREADS"
#: Threads of a run where the variable is not set, at most those of a run on this machine.
_MOST_THREADS = 4


@dataclass(frozen=True)
class Requirements:
    """What a run asks of a node.

    Attributes:
        threads: cores.
        gpus: GPUs.
        memory: bytes; None without an estimate.
        shards: further cores, on any nodes, for the shards of its rows.
    """

    threads: int
    gpus: int
    memory: int | None
    shards: int = 0

    def fit(self, resources: Mapping[str, float]) -> bool:
        """Whether a node has them when it is idle.

        Args:
            resources: the node's, as Ray names them.
        """
        return (
            resources.get("CPU", 0) >= self.threads
            and resources.get("GPU", 0) >= self.gpus
            and resources.get("memory", 0) >= (self.memory or 0)
        )

    @property
    def described(self) -> str:
        """The requirements in words."""
        parts = [f"{self.threads} cores" if self.threads > 1 else "1 core"]
        if self.gpus:
            parts.append("a GPU")
        if self.memory:
            parts.append(f"{self.memory / 1e9:.1f} GB of memory")
        return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]


def threads_of_a_node() -> int:
    """Threads of a run on a node: those of the variable, else of a fit here, at most four."""
    return int(os.environ.get(THREADS, "0")) or min(_MOST_THREADS, threads_of_a_fit())


def _has_shards(job: Job) -> bool:
    """Whether a run is a fit of a model whose rows can be in shards."""
    declared = REGISTRY.declarations.get(job.spec.model)
    fits = job.spec.kind in ("fit", "score")
    return fits and declared is not None and declared.capabilities.shards


def requirements(job: Job) -> Requirements:
    """What a run asks of a node."""
    shards = shard_count() if _has_shards(job) else 0
    threads = 1 if shards else threads_of_a_node()
    device = str(job.spec.parameters.get("device", "auto"))
    return Requirements(threads, int(device.startswith("cuda")), job.memory, shards)
