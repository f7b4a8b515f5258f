"""The datasets of a store, by digest."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path

from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.atomic_files import read_json
from lvmcore.runs.bin import Bin
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.run_files import PRIVATE_FOLDER
from lvmcore.runs.stored_jobs import StoredJobs

__all__ = ["StoredDatasets"]

_DIGEST = re.compile(r"[0-9a-f]{16,128}")


class StoredDatasets:
    """The datasets of a store.

    Args:
        home: the folder of the store.
        jobs: its runs, which are deleted with their dataset.
        bin: its bin.

    Attributes:
        root: the folder that holds the folders of the datasets.
    """

    def __init__(self, home: Path, jobs: StoredJobs, bin: Bin) -> None:
        self._home, self._jobs, self._bin = home, jobs, bin
        self.root = home / "datasets"

    def put(self, dataset: Dataset) -> str:
        """Store a dataset; an equal one is stored once.

        Returns:
            Its digest.

        Raises:
            DataError: it could not be written.
        """
        target = self._path(dataset.digest)
        if not target.is_dir():
            try:
                with tempfile.TemporaryDirectory(dir=self._home, prefix=".dataset-") as scratch:
                    fresh = Path(scratch) / "dataset"
                    fresh.mkdir(mode=PRIVATE_FOLDER)
                    save_dataset(dataset, fresh)
                    with suppress(FileExistsError, OSError):
                        fresh.rename(target)
            except OSError as error:
                raise DataError(
                    f"The dataset {dataset.name} could not be kept in {self.root}: "
                    f"{error.strerror}."
                ) from error
            if not target.is_dir():
                raise DataError(f"The dataset {dataset.name} could not be kept in {self.root}.")
        return dataset.digest

    def get(self, digest: str) -> Dataset:
        """The dataset with this digest.

        Raises:
            ConfigError: ``digest`` is not a digest.
            DataError: there is no such dataset.
        """
        return load_dataset(self._existing_path(digest))

    def shape(self, digest: str) -> tuple[int, int]:
        """Numbers of rows and features of a dataset, without reading its cells.

        Raises:
            DataError: there is no such dataset, or it is damaged.
        """
        stored = read_json(self._existing_path(digest) / "dataset.json")
        try:
            return int(stored["rows"]), len(stored["feature_names"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"The dataset {digest} is damaged: it names no rows.") from error

    def stays_in_place(self, digest: str) -> bool:
        """Whether a dataset is a sample of files that stay in place, without reading its cells.

        Raises:
            DataError: there is no such dataset, or it is damaged.
        """
        return read_json(self._existing_path(digest) / "dataset.json").get("files") is not None

    def names(self) -> dict[str, str]:
        """Names of the datasets, by digest; one that cannot be read has a name that says so."""
        names = {}
        for path in self.root.iterdir():
            if _DIGEST.fullmatch(path.name) and path.is_dir():
                names[path.name] = self._name(path)
        return names

    def _name(self, path: Path) -> str:
        try:
            return str(read_json(path / "dataset.json")["name"])
        except (DataError, KeyError):
            return f"Damaged dataset {path.name[:8]}"

    def delete(self, digest: str) -> str:
        """Delete a dataset and all its runs; they go to the bin.

        Returns:
            The id of the deletion, for ``Bin.restore``.

        Raises:
            ConfigError: one of the runs is running; nothing is deleted then.
            DataError: there is no such dataset, or the folder cannot be written.
        """
        path = self._existing_path(digest)
        fits = {job.id for job in self._jobs.all() if job.spec.dataset == digest}
        jobs = [job for job in self._jobs.all() if job.id in fits or job.spec.run in fits]
        busy = [job.name for job in jobs if job.status == "running"]
        if busy:
            raise ConfigError(
                f"The data set cannot be deleted while a run of it is under way: {busy[0]}. Wait "
                "for its end, or cancel it first."
            )
        with self._bin.deletion(self._name(path), "dataset") as bin:
            for job in jobs:
                if JobFolder(self._jobs.root / job.id).exists():  # else deleted with its fit
                    self._jobs.delete(job.id, bin)
            try:
                path.rename(bin / "datasets" / digest)
            except OSError as error:
                raise DataError(f"The dataset could not be deleted: {error.strerror}.") from error
        return bin.name

    def _existing_path(self, digest: str) -> Path:
        path = self._path(digest)
        if not path.is_dir():
            raise DataError(f"The store {self._home} holds no dataset with the digest {digest}.")
        return path

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ConfigError(f"{digest!r} is no digest: expected hexadecimal digits.")
        return self.root / digest
