"""Datasets of the papers from their public addresses: fetched when asked for, checked, kept."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from lvmcore.errors import ConfigError, DataError

if TYPE_CHECKING:
    from requests import Session

__all__ = [
    "MIRROR",
    "DownloadProgress",
    "PublicDataset",
    "PublicFile",
    "fetch_public",
    "public_content",
    "public_dataset",
    "public_folder",
    "public_names",
]

#: The environment variable of another server with the same paths.
MIRROR = "LVMCORE_DATA_URL"
_HOST = "https://raw.githubusercontent.com"
_TIMEOUT = 10  # seconds without an answer
_CHUNK = 65536  # bytes

#: Called with the bytes fetched so far and the bytes of all files.
DownloadProgress = Callable[[int, int], object]


@dataclass(frozen=True)
class PublicFile:
    """A file at a public address.

    Attributes:
        path: Path of the file in its repository.
        bytes: Its size.
        sha256: SHA-256 of its content, hexadecimal.
    """

    path: str
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """The name under which the file is kept."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class PublicDataset:
    """A dataset of the papers that anybody can fetch.

    Attributes:
        name: Its name in `load_paper`.
        repository: Owner, repository and commit, joined by "/".
        files: Its files. A name that ends in ".gz" is of a gzip file.
        columns: Names of a table's columns, the label or the target last; none for pictures.
        separator: What separates the cells of a table that may hold text; None for numbers
            separated by spaces, and for other formats.
        header: Number of lines before the first row, which are not read.
        kept_with: The dataset in whose folder the files are kept, if it has the same files; "" for
            a folder of its own.
    """

    name: str
    repository: str
    files: tuple[PublicFile, ...]
    columns: tuple[str, ...] = ()
    separator: str | None = None
    header: int = 0
    kept_with: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def folder(self) -> Path:
        """The folder in which the files are kept."""
        return public_folder() / (self.kept_with or self.name)

    @property
    def is_fetched(self) -> bool:
        """Whether all files are in the folder, by their sizes: reading checks their hashes."""
        paths = [(self.folder / file.name, file.bytes) for file in self.files]
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)

    def address(self, file: PublicFile) -> str:
        """The address of a file."""
        host = os.environ.get(MIRROR) or _HOST
        return f"{host.rstrip('/')}/{self.repository}/{file.path}"


@cache
def _datasets() -> dict[str, PublicDataset]:
    text = files("lvmcore").joinpath("data/samples/public_files.json").read_text(encoding="utf-8")
    return {
        name: PublicDataset(
            name,
            entry["repository"],
            tuple(PublicFile(**file) for file in entry["files"]),
            tuple(entry.get("columns", ())),
            entry.get("separator"),
            entry.get("header", 0),
            entry.get("kept_with", ""),
        )
        for name, entry in json.loads(text).items()
    }


def public_names() -> tuple[str, ...]:
    """Names of the datasets that can be fetched."""
    return tuple(_datasets())


def public_dataset(name: str) -> PublicDataset:
    """A dataset that can be fetched.

    Raises:
        ConfigError: There is no public address of a dataset of that name.
    """
    if name not in _datasets():
        raise ConfigError(
            f"The dataset {name!r} has no public address. Expected one of "
            f"{', '.join(public_names())}."
        )
    return _datasets()[name]


def public_folder() -> Path:
    """The folder of the fetched files: ``latentboard/public`` in the user's folder of caches."""
    return user_cache_path("latentboard") / "public"


@dataclass(frozen=True)
class _Downloader:
    """Fetches one file, in the form that pooch calls it: at most its expected bytes.

    Attributes:
        session: Keeps the connection from file to file.
        size: Expected bytes of the file.
        report: Called with the bytes of the file so far.
    """

    session: Session
    size: int
    report: Callable[[int], object]

    def __call__(self, address: str, output: str, pooch: object) -> None:
        del pooch
        done = 0
        with (
            self.session.get(address, timeout=_TIMEOUT, stream=True) as response,
            Path(output).open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_content(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if done > self.size:
                    raise ValueError("more bytes than expected")
                self.report(done)


def fetch_public(name: str, progress: DownloadProgress | None = None) -> None:
    """Fetch the files of a dataset that are not yet in its folder, and check all by SHA-256.

    A file that was put into the folder by hand is taken, if its hash is right.

    Args:
        name: One of `public_names()`.
        progress: Called as the bytes arrive.

    Raises:
        ConfigError: There is no public address of a dataset of that name.
        DataError: A file cannot be fetched, is not the expected one, or cannot be written.
    """
    import requests

    dataset = public_dataset(name)
    before = 0
    with requests.Session() as session:
        for file in dataset.files:
            report = partial(_report, progress, before, dataset.bytes)
            _fetch_file(dataset, file, _Downloader(session, file.bytes, report))
            report(file.bytes)
            before += file.bytes


def _fetch_file(dataset: PublicDataset, file: PublicFile, downloader: _Downloader) -> None:
    """Fetch a file unless it is in the folder, and check it."""
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    try:
        pooch.retrieve(
            dataset.address(file),
            known_hash=f"sha256:{file.sha256}",
            fname=file.name,
            path=dataset.folder,
            downloader=downloader,
        )
    except requests.RequestException as error:
        raise DataError(_by_hand(dataset, file, _reason(error))) from error
    except ValueError as error:  # another hash
        reason = "the server sent a file of another content"
        raise DataError(_by_hand(dataset, file, reason)) from error
    except OSError as error:
        raise DataError(
            f"The file {file.name} cannot be kept in {dataset.folder}: "
            f"{error.strerror or error}. Make the folder writable."
        ) from error


def _report(progress: DownloadProgress | None, before: int, total: int, done: int) -> None:
    if progress is not None:
        progress(before + done, total)


def _reason(error: Exception) -> str:
    import requests

    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"the server did not answer within {_TIMEOUT} s"
    return "there is no connection to the server"


def _by_hand(dataset: PublicDataset, file: PublicFile, reason: str) -> str:
    others = len(dataset.files) - 1
    beside = f", and the {others} other files of the dataset beside it" if others > 1 else ""
    return (
        f"The file {file.name} could not be fetched: {reason}. Try again later, or save "
        f"{dataset.address(file)} as {dataset.folder / file.name}{beside}."
    )


def public_content(dataset: PublicDataset, file: PublicFile) -> bytes:
    """The content of a fetched file; a gzip file is unpacked.

    Args:
        dataset: The dataset.
        file: One of its files.

    Raises:
        DataError: It is not in the folder, or is not the expected one.
    """
    import pooch

    path = dataset.folder / file.name
    if not path.is_file():
        raise DataError(
            f"The dataset {dataset.name} is not on this machine: fetch it, or save "
            f"{dataset.address(file)} as {path}."
        )
    if pooch.file_hash(str(path)) != file.sha256:
        raise DataError(
            f"The file {path} is not the expected one (its SHA-256 is another). Delete it, and "
            "fetch the dataset again."
        )
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
