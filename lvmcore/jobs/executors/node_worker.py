"""The worker of a run on a node of a cluster: an actor that runs the same process as one machine.

The actor keeps a store in a temporary folder of its node: the folder of the run, that of the fitted
run whose model it uses, and the datasets, which stay on the node for later runs. The run is
computed there by ``lvmcore.jobs.worker``, as on one machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import psutil

from lvmcore.errors import DataError
from lvmcore.jobs.executors.cluster_state import ADDRESS
from lvmcore.jobs.executors.folder_mirror import FileChange, FileMark, changed_files
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.runs.job import installed_version
from lvmcore.runs.run_files import PRIVATE_FOLDER

__all__ = ["NodeWorker", "different_versions", "folder_files", "node_versions", "package_versions"]

_DATASETS, _RUNS = "datasets", "jobs"
#: Folders of the copies; the number of the process that made one follows.
_COPY = "latentboard-run-"
#: Packages whose versions are the same on all machines of a run.
_COMPARED = ("latentboard", "torch", "numpy")


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that a run depends on most; "" for a missing one."""
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: installed_version(name) or "" for name in _COMPARED},
    }


def node_versions() -> dict[str, str]:
    """``package_versions`` of this node, with its name as "node"."""
    return {**package_versions(), "node": platform.node()}


def different_versions(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """What differs between this machine and a node, with what to do; "" where nothing does.

    Args:
        here: ``package_versions`` of this machine.
        there: ``node_versions`` of the node.
    """
    other = [
        f"{name} {there.get(name) or '(none)'} for {here[name] or '(none)'}"
        for name in here
        if here[name] != there.get(name, "")
    ]
    if not other:
        return ""
    return (
        f"The node {there.get('node', '')} has other versions than this machine: "
        f"{', '.join(other)}. Install the same ones on all machines."
    )


def folder_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder and of its subfolders by relative path, but locks and partial writes.

    Args:
        folder: the folder of a dataset or of a run.

    Raises:
        DataError: it does not exist.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} does not exist.")
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and name not in _OWN:
            with suppress(FileNotFoundError):
                found[name] = path.read_bytes()
    return found


#: Files of a run that belong to its machine.
_OWN = frozenset({"lock", "reserve", "cancel"})


class NodeWorker:
    """A run on a node.

    Args:
        threads: threads of its process.
        gpu: the GPU of its process, as "cuda:0"; "" for none.
    """

    def __init__(self, threads: int, gpu: str = "") -> None:
        self._threads, self._gpu = threads, gpu
        _delete_remnants()
        self._home = Path(tempfile.mkdtemp(prefix=f"{_COPY}{os.getpid()}-"))
        for root in (_DATASETS, _RUNS):
            (self._home / root).mkdir(mode=PRIVATE_FOLDER)
        self._process: WorkerProcess | None = None
        self._run = Path()

    def versions(self) -> dict[str, str]:
        """Versions of the packages on this node, with its name."""
        return node_versions()

    def missing_datasets(self, digests: Sequence[str]) -> list[str]:
        """The datasets that were not sent to this node yet."""
        return [digest for digest in digests if not (_dataset_cache() / digest).is_dir()]

    def receive_dataset(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep a dataset on this node."""
        target = _dataset_cache() / digest
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=".dataset-"))
        _write_files(fresh, files)
        try:
            fresh.rename(target)
        except OSError:  # another run received it meanwhile
            shutil.rmtree(fresh, ignore_errors=True)

    def receive_run(self, name: str, files: Mapping[str, bytes]) -> None:
        """Copy the folder of a run."""
        folder = self._home / _RUNS / name
        folder.mkdir(mode=PRIVATE_FOLDER)
        _write_files(folder, files)

    def start(
        self,
        name: str,
        digests: Sequence[str],
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start a received run.

        Args:
            name: its id.
            digests: its datasets.
            variables: further variables of the environment of its process.
        """
        for digest in digests:
            (self._home / _DATASETS / digest).symlink_to(_dataset_cache() / digest)
        self._run = self._home / _RUNS / name
        own = {**variables, ADDRESS: _own_address()} if _own_address() else dict(variables)
        self._process = WorkerProcess(self._threads, variables=own)
        self._process.assign(self._home, name, self._gpu)

    def changes(self, known: Mapping[str, FileMark]) -> tuple[list[FileChange], int | None, str]:
        """What changed in the folder of the run.

        Args:
            known: versions of its files in the copy.

        Returns:
            The changes, the exit status of the process (None while it runs), and the end of its
            standard error before it began the run.
        """
        assert self._process is not None
        ended = self._process.returncode
        return changed_files(self._run, known), ended, self._process.error_tail()

    def cancel(self) -> None:
        """Request the cancellation of the run: it stops at its next step."""
        (self._run / "cancel").touch()

    def terminate(self) -> None:
        """Send SIGTERM to the process: it stops at its next step and keeps the fit so far."""
        if self._process is not None:
            self._process.terminate()

    def close(self) -> None:
        """Kill the process if it runs, and delete the copy of the run."""
        if self._process is not None:
            self._process.end()
        shutil.rmtree(self._home, ignore_errors=True)


def _own_address() -> str:
    """The address at which this node reaches its cluster; "" outside of one."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return ""
    return str(ray.get_runtime_context().gcs_address)


def _delete_remnants() -> None:
    """Delete the copies of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_COPY}*"):
        pid = folder.name.removeprefix(_COPY).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _dataset_cache() -> Path:
    """The folder of the datasets on this node; its owner's alone.

    Raises:
        DataError: the folder belongs to another user.
    """
    owner = os.getuid() if hasattr(os, "getuid") else 0
    cache = Path(tempfile.gettempdir()) / f"latentboard-datasets-{owner}"
    cache.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    if hasattr(os, "getuid") and (cache.is_symlink() or cache.stat().st_uid != owner):
        raise DataError(f"{cache} belongs to another user.")
    return cache


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        path.write_bytes(content)
