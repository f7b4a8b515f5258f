"""Processes that apply a model to blocks of rows: of this machine, or of a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
import uuid
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


_on_node: dict[str, BlockModel] = {}


def _apply_on_node(key: str, model: BlockModel, block: ArrowBlock) -> bytes:
    """The results of a block in a process of a cluster, which keeps the loaded model."""
    if key not in _on_node:
        import torch

        torch.set_num_threads(1)
        _on_node.clear()
        _on_node[key] = model
    return _on_node[key].apply(block)


class RayPool(BlockPool):
    """Tasks of one core each on the nodes of a Ray cluster; Ray repeats those of a lost node.

    A task waits until a core is free, so that other runs on the cluster only slow it down.

    Args:
        ray: the module ``ray``, connected.
        model: the model.
        workers: largest number of cores; None for those of the cluster.
    """

    def __init__(self, ray: Any, model: BlockModel, workers: int | None = None) -> None:
        self._ray = ray
        n = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.most = _BLOCKS_A_PROCESS * n
        self._key = uuid.uuid4().hex
        self._model = ray.put(model)
        self._task = ray.remote(num_cpus=1, max_retries=-1)(_apply_on_node)
        self._under_way: dict[Any, int] = {}

    def submit(self, number: int, block: ArrowBlock) -> None:
        """Have a block computed where there is a free core."""
        self._under_way[self._task.remote(self._key, self._model, block)] = number

    def finished(self, seconds: float) -> list[tuple[int, bytes]]:
        """The results that are finished."""
        if not self._under_way:
            return []
        done, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        found = []
        for result in done:
            number = self._under_way.pop(result)
            try:
                found.append((number, self._ray.get(result)))
            except self._ray.exceptions.RayTaskError as error:
                cause = error.cause if error.cause is not None else error
                raise DataError(str(cause)) from error
        return found

    def close(self) -> None:
        """Cancel the tasks that are under way."""
        for result in self._under_way:
            self._ray.cancel(result, force=True)
        self._under_way.clear()
