"""A run with its dataset in one ZIP file, which another store takes in."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from lvmcore.errors import DataError
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.run_files import PRIVATE_FILE, PRIVATE_FOLDER, RunFiles
from lvmcore.runs.store import Store

__all__ = ["open_run_bundle", "run_bundle"]

#: Most bytes of all files of a bundle that is opened.
MOST_BYTES = 4 * 2**30
_FORMAT, _VERSION = "latentboard run", 1
_META, _RUN, _DATASET = "bundle.json", "run/", "dataset/"
_DATASET_FILES = ("data.parquet", "dataset.json", "texts.parquet")
#: Moment of all members, so that equal runs make equal files.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def run_bundle(store: Store, run: str) -> bytes:
    """A ZIP file of a fitted run: its description, state, curves, model, results and dataset.

    Args:
        store: the store of the run.
        run: its id.

    Returns:
        The file, of which ``open_run_bundle`` makes the same run in another store.

    Raises:
        DataError: the run has no model, or its rows are in registered files.
    """
    job = store.get(run)
    if not job.has_model or job.spec.kind != "fit" or not job.finished:
        raise DataError(f"The run {job.name} has no fitted model to take along.")
    if store.datasets.stays_in_place(job.spec.dataset):
        raise DataError(
            f"The rows of {job.name} are in registered files, which a bundle does not hold."
        )
    meta = {"format": _FORMAT, "version": _VERSION, "run": run}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, _META, json.dumps(meta, indent=1).encode())
        for path in _kept_files(RunFiles(store.job_folder(run).path)):
            if path.is_file():
                _write(archive, _RUN + path.name, path.read_bytes())
        folder = store.datasets.root / job.spec.dataset
        for name in _DATASET_FILES:
            if (folder / name).is_file():
                _write(archive, _DATASET + name, (folder / name).read_bytes())
    return content.getvalue()


def open_run_bundle(store: Store, content: bytes) -> str:
    """Put the run of a bundle and its dataset into a store.

    The content is checked before anything is stored: names and sizes of the members, the digest of
    the dataset, the description and the state of the run, and the model.

    Args:
        store: the store.
        content: a file that ``run_bundle`` made.

    Returns:
        The id of the run, the one that it had unless another run has it. A run that is in the store
        already stays as it is.

    Raises:
        DataError: the file is no such bundle, or is damaged; the message says where.
    """
    with tempfile.TemporaryDirectory(dir=store.home, prefix=".bundle-") as scratch:
        folder = Path(scratch)
        meta = _unpack(content, folder)
        run = JobFolder(folder / "run")
        try:
            _check_run(run)
            _store_dataset(store, folder / "dataset", run.spec().dataset)
        except DataError as error:  # it names the folder of a moment
            raise DataError(f"In the bundle: {str(error).replace(f'{folder}/', '')}") from error
        return store.adopt(run.path, str(meta.get("run")))


def _kept_files(files: RunFiles) -> tuple[Path, ...]:
    """The files of a run that go with it."""
    return (
        files.spec,
        files.status,
        files.about,
        files.events,
        files.selections,
        files.colours,
        files.views,
        *files.results,
    )


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _MOMENT), content, zipfile.ZIP_DEFLATED)


def _unpack(content: bytes, folder: Path) -> dict[str, Any]:
    """Write the members that a bundle may have into folders, and return what it says of itself."""
    names = {_RUN + path.name for path in _kept_files(RunFiles(folder))}
    names |= {_DATASET + name for name in _DATASET_FILES}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            meta = _checked_meta(archive)
            _check_members(archive, names)
            for part in (_RUN, _DATASET):
                (folder / part).mkdir(mode=PRIVATE_FOLDER)
            for member in archive.infolist():
                if member.filename != _META:
                    target = folder / member.filename
                    target.touch(PRIVATE_FILE)
                    with archive.open(member) as packed, target.open("wb") as file:
                        shutil.copyfileobj(packed, file)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise DataError(
            f"This file is no bundle of a run ({error}). Choose a file that the Export page made."
        ) from error
    except OSError as error:
        raise DataError(f"The bundle could not be unpacked: {error.strerror or error}.") from error
    return meta


def _checked_meta(archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        info = archive.getinfo(_META)
        meta = json.loads(archive.read(info)) if info.file_size < 10_000 else None
    except (KeyError, ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise DataError(
            f"This ZIP file is no bundle of a run: its {_META} is missing or says something else. "
            "Choose a file that the Export page made."
        )
    if meta.get("version") != _VERSION:
        raise DataError(
            f"The bundle has the version {meta.get('version')!r}; this Latentboard reads "
            f"{_VERSION}. Update Latentboard, and open it again."
        )
    return meta


def _check_members(archive: zipfile.ZipFile, names: set[str]) -> None:
    members = archive.infolist()
    found = [member.filename for member in members]
    strange = next((name for name in found if name not in names and name != _META), None)
    if strange is not None:
        raise DataError(f"The bundle has a file that no run has: {strange!r}. Nothing was opened.")
    if len(set(found)) < len(found):
        raise DataError("The bundle has a file twice. Nothing was opened.")
    if sum(member.file_size for member in members) > MOST_BYTES:
        raise DataError(f"The bundle holds more than {MOST_BYTES // 2**30} GB. Nothing was opened.")


def _check_run(run: JobFolder) -> None:
    """Check that the files of the run are those of a finished fit with a model that loads."""
    from lvmcore.models import load

    spec, state = run.spec(), run.state()
    finished = state.stage == "finished" and state.status in ("done", "cancelled", "interrupted")
    if spec.kind != "fit" or spec.run or not finished:
        raise DataError("The bundle holds no finished fit. Nothing was opened.")
    load(run.files.model, "target" if spec.target else "map")
    run.metrics()


def _store_dataset(store: Store, folder: Path, digest: str) -> None:
    """Store the dataset of the bundle, unless the store has it."""
    from lvmcore.data.dataset_storage import load_dataset

    dataset = load_dataset(folder)
    if dataset.digest != digest:
        raise DataError("The bundle holds another dataset than that of its run.")
    if dataset.files is not None:
        raise DataError("The dataset of the bundle is in files of another machine.")
    store.datasets.put(dataset)
