"""Rows of a benchmark measured at once by the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from lvmcore.bench.harness import machine
from lvmcore.bench.harness.report import MeasuredRow, RowMaker, row_or_error
from lvmcore.jobs.executors.cluster_address import ClusterError, cluster_address, connect
from lvmcore.jobs.executors.node_worker import (
    different_versions,
    node_versions,
    package_versions,
)
from lvmcore.jobs.executors.requirements import threads_of_a_node

__all__ = ["ClusterRows"]


class ClusterRows:
    """Measures rows on a Ray cluster, as many at once as it has cores for.

    A row that is lost with its node is measured on another one. Rows of seconds share their machine
    with others, as those of several fits at once do.

    Args:
        address: "host:port", or "auto".

    Raises:
        ClusterError: the cluster cannot be reached.
    """

    def __init__(self, address: str) -> None:
        self._ray = connect(cluster_address(address))

    def __call__(self, makers: Sequence[RowMaker]) -> Iterator[tuple[RowMaker, MeasuredRow]]:
        """Measure rows; each comes as it is done.

        Args:
            makers: of the rows: functions of a module with their arguments.

        Raises:
            ClusterError: a node has other versions of the packages.
        """
        threads = threads_of_a_node()
        task = self._ray.remote(_measured_row).options(num_cpus=threads)
        here = package_versions()
        waiting = {task.remote(maker, threads, here): maker for maker in makers}
        while waiting:
            ready, _ = self._ray.wait(list(waiting))
            found = self._ray.get(ready[0])
            if isinstance(found, str):
                raise ClusterError(found)
            yield waiting.pop(ready[0]), found


def _measured_row(maker: RowMaker, threads: int, expected: dict[str, str]) -> MeasuredRow | str:
    """Measure a row on a node; the sentence where the node has other versions of the packages."""
    different = different_versions(expected, node_versions())
    if different:
        return different
    torch.set_num_threads(threads)
    return MeasuredRow(row_or_error(maker), machine.describe_machine(), machine.commit_hash())
