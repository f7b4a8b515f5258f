"""Datasets fetched from a server on this machine: checked, kept, refused with a sentence."""

import gzip
import hashlib
import io
import os
import socket
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import ConfigError, DataError
from lvmcore.data import load_paper
from lvmcore.data.samples import public_datasets
from lvmcore.data.samples.paper_datasets import VARIABLE, has_paper
from lvmcore.data.samples.public_datasets import (
    MIRROR,
    PublicDataset,
    PublicFile,
    fetch_public,
    public_dataset,
    public_names,
)
from lvmcore.data.samples.public_tables import read_public_table
from tests.data_server import serving
from tests.needs import unavailable

MEASUREMENTS = b"  1.5e+00  2.0e+00\n  3.0e+00  4.0e+00\n"
CLASSES = b"  0.0  1.0\n  1.0  0.0\n"


def known(path: str, content: bytes) -> PublicFile:
    return PublicFile(path, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of caches, and no folder of the papers' data."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> Iterator[Path]:
    """A dataset "pair" of two files, and the folder from which it is served."""
    dataset = PublicDataset(
        "pair",
        "owner/repository/commit",
        (known("data/values.txt", MEASUREMENTS), known("data/classes.txt", CLASSES)),
        ("a", "b", "label"),
    )
    monkeypatch.setattr(public_datasets, "_datasets", lambda: {"pair": dataset})
    folder = tmp_path / "server" / "owner" / "repository" / "commit" / "data"
    folder.mkdir(parents=True)
    (folder / "values.txt").write_bytes(MEASUREMENTS)
    (folder / "classes.txt").write_bytes(CLASSES)
    with serving(tmp_path / "server") as address:
        monkeypatch.setenv(MIRROR, address)
        yield folder


def test_it_is_fetched_with_progress_kept_and_read(pair: Path) -> None:
    seen = list[tuple[int, int]]()
    assert not public_dataset("pair").is_fetched
    with pytest.raises(DataError, match=r"is not on this machine: fetch it, or save http"):
        read_public_table("pair")
    fetch_public("pair", lambda done, total: seen.append((done, total)))
    total = len(MEASUREMENTS) + len(CLASSES)
    assert [total for _, total in seen] == len(seen) * [total]
    done = [done for done, _ in seen]
    assert done[-1] == total
    assert done == sorted(done)
    table = read_public_table("pair")
    assert [column.name for column in table.columns] == ["a", "b", "label"]
    dataset = table.dataset(label="label")
    np.testing.assert_array_equal(dataset.X, [[1.5, 2.0], [3.0, 4.0]])
    assert dataset.labels is not None
    assert dataset.labels.astype(str).tolist() == ["1", "0"]
    (pair / "values.txt").unlink()  # kept: the server is not asked again
    fetch_public("pair")


def test_another_content_is_refused_and_not_kept(pair: Path) -> None:
    (pair / "classes.txt").write_bytes(b"0 1\n0 1\n")
    with pytest.raises(DataError, match=r"classes\.txt could not be fetched: the server sent"):
        fetch_public("pair")
    assert sorted(path.name for path in public_dataset("pair").folder.iterdir()) == ["values.txt"]


def test_a_missing_file_is_said_with_what_to_do_by_hand(pair: Path) -> None:
    (pair / "values.txt").unlink()
    with pytest.raises(DataError, match="the server answered 404") as caught:
        fetch_public("pair")
    path = public_dataset("pair").folder / "values.txt"
    assert f"as {path}." in str(caught.value)
    assert f"{os.environ[MIRROR]}/owner/repository/commit/data/values.txt" in str(caught.value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MEASUREMENTS)  # by hand
    fetch_public("pair")
    assert len(read_public_table("pair").frame) == 2


def test_without_a_connection_a_sentence_says_so(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del pair
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(DataError, match="there is no connection to the server"):
        fetch_public("pair")


def test_a_file_changed_afterwards_is_not_read(pair: Path) -> None:
    del pair
    fetch_public("pair")
    path = public_dataset("pair").folder / "values.txt"
    path.write_bytes(MEASUREMENTS.replace(b"1", b"2"))
    with pytest.raises(DataError, match="is not the expected one"):
        read_public_table("pair")


def test_a_folder_that_cannot_be_written_is_said(pair: Path, cache: Path) -> None:
    del pair
    cache.write_text("a file in place of the folder")
    with pytest.raises(DataError, match="cannot be kept in"):
        fetch_public("pair")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="'nothing' has no public address"):
        public_dataset("nothing")


@pytest.mark.parametrize(
    ("file", "content", "separator", "header"),
    [
        ("data/table.csv", b"1.5,red\n2.5,b\n", ",", 0),
        ("data/table.arff", b"@relation r\n@data\n1.5,red\n2.5,b\n", ",", 2),
        ("data/table.csv.gz", gzip.compress(b"1.5,red\n2.5,b\n", mtime=0), ",", 0),
    ],
    ids=("csv", "arff", "gzip"),
)
def test_a_table_with_text_is_read_below_its_header(
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    file: str,
    content: bytes,
    separator: str,
    header: int,
) -> None:
    del cache
    dataset = PublicDataset(
        "text", "o/r/c", (known(file, content),), ("size", "label"), separator, header
    )
    monkeypatch.setattr(public_datasets, "_datasets", lambda: {"text": dataset})
    dataset.folder.mkdir(parents=True)
    (dataset.folder / dataset.files[0].name).write_bytes(content)
    frame = read_public_table("text").frame
    assert list(frame.columns) == ["size", "label"]
    assert frame["size"].tolist() == [1.5, 2.5]
    assert frame["label"].tolist() == ["red", "b"]


# The data folder has the raw files of tables of numbers up to 700 kB, but for the pickled one.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in public_names()
        if public_dataset(name).bytes < 700_000
        and public_dataset(name).separator is None
        and name != "bridges"
    ],
)
def test_the_fetched_table_is_that_of_the_data_folder(
    name: str, data_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cache
    assert not has_paper(name)
    raw = data_folder / "raw"
    with serving(raw) as address:
        monkeypatch.setenv(MIRROR, address)
        fetch_public(name)
    assert has_paper(name)
    fetched = load_paper(name)
    monkeypatch.setenv(VARIABLE, str(data_folder))
    stored = load_paper(name)
    assert [column.name for column in fetched.columns] == [one.name for one in stored.columns]
    pd.testing.assert_frame_equal(fetched.frame, stored.frame, check_dtype=False, rtol=1e-12)
    np.testing.assert_allclose(
        fetched.dataset(label=None).X, stored.dataset(label=None).X, rtol=1e-12
    )


def test_a_pickled_table_of_counts_has_weekdays_and_weekends(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    del cache
    counts, weekdays = np.array([[5, 6], [7, 8], [9, 1]]), np.array([[0], [0], [1]])
    file = io.BytesIO()
    np.save(file, np.array({"Y": counts, "labels": weekdays}, dtype=object), allow_pickle=True)
    _put(monkeypatch, "bridges", file.getvalue(), ("a", "b", "label"))
    frame = load_paper("bridges").frame
    np.testing.assert_array_equal(frame[["a", "b"]], counts)
    assert frame["label"].tolist() == ["weekend", "weekend", "weekday"]
    other = io.BytesIO()
    np.save(other, np.array({"Y": counts}, dtype=object), allow_pickle=True)
    _put(monkeypatch, "bridges", other.getvalue(), ("a", "b", "label"))
    with pytest.raises(DataError, match="has no counts and labels"):
        load_paper("bridges")


def test_counters_have_the_season_of_their_day(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    del cache
    days = np.arange(365)
    columns = [",".join("" if c == 1 else str(c * 1000 + day) for c in range(21)) for day in days]
    names = (*"abcdefgh", "label")
    _put(monkeypatch, "montreal", "\n".join(columns).encode(), names)
    frame = load_paper("montreal").frame
    assert frame.iloc[4, :8].tolist() == [c * 1000 + 4 for c in (0, 2, 3, 5, 8, 10, 13, 17)]
    months = [date(2015, m, 1) for m in range(1, 13)]
    first = [frame["label"][one.timetuple().tm_yday - 1] for one in months]
    seasons = ["winter"] * 2 + ["spring"] * 3 + ["summer"] * 3 + ["autumn"] * 3 + ["winter"]
    assert first == seasons


def _put(
    monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, columns: tuple[str, ...]
) -> None:
    """Make a file the fetched one of a dataset."""
    dataset = PublicDataset(name, "o/r/c", (known("data/file", content),), columns)
    monkeypatch.setattr(public_datasets, "_datasets", lambda: {name: dataset})
    dataset.folder.mkdir(parents=True, exist_ok=True)
    (dataset.folder / "file").write_bytes(content)


def test_many_files_are_named_together_where_one_cannot_be_fetched(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    del cache
    with serving(tmp_path) as address:
        monkeypatch.setenv(MIRROR, address)
        with pytest.raises(DataError, match=r"and the 163 other files of the dataset beside it\."):
            fetch_public("yale_faces")


@pytest.fixture
def data_folder() -> Path:
    """The folder of the papers' data."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        unavailable(f"the papers' data are needed: set {VARIABLE} to their folder")
    return Path(folder)
