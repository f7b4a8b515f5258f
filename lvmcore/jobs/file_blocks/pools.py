"""Processes that apply a model to blocks of rows: of this machine, or of a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from lvmcore.data.long_tables.file_blocks import ArrowBlock
from lvmcore.errors import DataError
from lvmcore.jobs.executors.cluster_tasks import ClusterTasks, TaskNeeds
from lvmcore.jobs.file_blocks.block_model import BlockModel
from lvmcore.jobs.machine_limits import limit_threads

__all__ = ["BlockPool", "LocalPool", "RayPool"]

#: Blocks that each process has or waits for, so that none waits for the reading of the next.
_BLOCKS_A_PROCESS = 2


class BlockPool(ABC):
    """Processes that have a copy of a model.

    Attributes:
        most: largest number of blocks that are under way.
    """

    most: int

    @abstractmethod
    def submit(self, number: int, block: ArrowBlock) -> None:
        """Have a block computed.

        Args:
            number: its number, under which its result comes.
            block: the block.
        """

    @abstractmethod
    def finished(self, seconds: float) -> list[tuple[int, bytes]]:
        """The results that are finished, after at most so many seconds.

        Raises:
            DataError: a block could not be computed.
        """

    @abstractmethod
    def close(self) -> None:
        """End the processes; blocks under way are lost."""


class LocalPool(BlockPool):
    """Processes of this machine, each of one thread.

    Args:
        model: the model.
        workers: number of processes.
    """

    def __init__(self, model: BlockModel, workers: int) -> None:
        self.most = _BLOCKS_A_PROCESS * workers
        before = dict(os.environ)
        limit_threads(os.environ, 1)  # of the processes, which are started here
        try:
            self._pool = ProcessPoolExecutor(
                workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(model,),
            )
            self._futures: dict[Future[bytes], int] = {}
            started = [self._pool.submit(os.getpid) for _ in range(workers)]
            wait(started)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def submit(self, number: int, block: ArrowBlock) -> None:
        """Have a block computed."""
        self._futures[self._pool.submit(_apply, block)] = number

    def finished(self, seconds: float) -> list[tuple[int, bytes]]:
        """The results that are finished."""
        done, _ = wait(self._futures, timeout=seconds, return_when=FIRST_COMPLETED)
        try:
            return [(self._futures.pop(future), future.result()) for future in done]
        except BrokenProcessPool as error:
            raise DataError(
                "A process ended before its block of rows was done, probably as the memory was "
                "not enough. The blocks that are done are kept: run it again with fewer workers."
            ) from error

    def close(self) -> None:
        """End the processes."""
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


_model: list[BlockModel] = []


def _begin(model: BlockModel) -> None:
    """Keep the model in this process, which ends with its parent."""
    import torch

    torch.set_num_threads(1)
    _model[:] = [model]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _apply(block: ArrowBlock) -> bytes:
    return _model[0].apply(block)


class RayPool(BlockPool):
    """Tasks of one core each on the nodes of a Ray cluster; Ray repeats those of a lost node.

    A task waits until a core is free, so that other runs on the cluster only slow it down.

    Args:
        ray: the module ``ray``, connected.
        model: the model; a process of a node keeps it loaded.
        workers: largest number of cores; None for those of the cluster.
    """

    def __init__(self, ray: Any, model: BlockModel, workers: int | None = None) -> None:
        n = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.most = _BLOCKS_A_PROCESS * n
        self._tasks: ClusterTasks[int] = ClusterTasks(ray, model.apply, TaskNeeds())

    def submit(self, number: int, block: ArrowBlock) -> None:
        """Have a block computed where there is a free core."""
        self._tasks.submit(number, block)

    def finished(self, seconds: float) -> list[tuple[int, bytes]]:
        """The results that are finished."""
        found = []
        for result in self._tasks.finished(seconds):
            try:
                found.append((result.key, result.get()))
            except Exception as error:
                raise DataError(str(error)) from error
        return found

    def close(self) -> None:
        """Cancel the tasks that are under way."""
        self._tasks.close()
