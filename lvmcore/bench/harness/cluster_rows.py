"""Rows of a benchmark measured at once by the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lvmcore.bench.harness import machine
from lvmcore.bench.harness.report import MeasuredRow, RowMaker, row_or_error
from lvmcore.jobs.executors.cluster_address import cluster_address, connect
from lvmcore.jobs.executors.cluster_tasks import ClusterTasks, TaskNeeds
from lvmcore.jobs.executors.requirements import threads_of_a_node

__all__ = ["ClusterRows"]

#: Longest wait for a row before another look.
_WAIT_SECONDS = 60.0


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
            ClusterError: a node has other versions of the packages, or was lost again and again.
        """
        needs = TaskNeeds(threads_of_a_node())
        tasks: ClusterTasks[RowMaker] = ClusterTasks(self._ray, _measured_row, needs)
        try:
            for maker in makers:
                tasks.submit(maker, maker)
            while len(tasks):
                for found in tasks.finished(_WAIT_SECONDS):
                    yield found.key, found.get()
        finally:
            tasks.close()


def _measured_row(maker: RowMaker) -> MeasuredRow:
    """Measure a row on a node."""
    return MeasuredRow(row_or_error(maker), machine.describe_machine(), machine.commit_hash())
