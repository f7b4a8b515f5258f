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


class _NodeModel:
    """A model on a node of a cluster.

    Args:
        model: the model.
    """

    def __init__(self, model: BlockModel) -> None:
        _begin_on_node()
        self._model = model

    def apply(self, block: ArrowBlock) -> bytes:
        """The results of a block."""
        return self._model.apply(block)


def _begin_on_node() -> None:
    import torch

    torch.set_num_threads(1)


class RayPool(BlockPool):
    """Actors on the nodes of a Ray cluster, one a free core; a lost one is started anew.

    Args:
        ray: the module ``ray``, connected.
        model: the model.
        workers: number of actors; None for the cores of the cluster.
    """

    def __init__(self, ray: Any, model: BlockModel, workers: int | None = None) -> None:
        self._ray = ray
        n = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.most = _BLOCKS_A_PROCESS * n
        shared = ray.put(model)
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_NodeModel)
        self._actors = [actor.remote(shared) for _ in range(n)]
        self._load = [0] * n
        self._under_way: dict[Any, tuple[int, int]] = {}

    def submit(self, number: int, block: ArrowBlock) -> None:
        """Have a block computed by the actor with the fewest blocks."""
        chosen = min(range(len(self._actors)), key=self._load.__getitem__)
        found = self._actors[chosen].apply.remote(block)
        self._load[chosen] += 1
        self._under_way[found] = number, chosen

    def finished(self, seconds: float) -> list[tuple[int, bytes]]:
        """The results that are finished."""
        if not self._under_way:
            return []
        done, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        found = []
        for result in done:
            number, chosen = self._under_way.pop(result)
            self._load[chosen] -= 1
            try:
                found.append((number, self._ray.get(result)))
            except self._ray.exceptions.RayTaskError as error:
                cause = error.cause if error.cause is not None else error
                raise DataError(str(cause)) from error
        return found

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            self._ray.kill(actor)
