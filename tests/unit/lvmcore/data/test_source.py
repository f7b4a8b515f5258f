"""The source of a table is a regular file, of at most so many bytes."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lvmcore.data import memory_mapped, read_table
from lvmcore.data.source import open_regular_file
from lvmcore.errors import DataError


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # short, as the address of a socket has to be
        yield Path(folder)


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


def listener(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket.csv"))
    return folder / "socket.csv"


def link_to_pipe(folder: Path) -> Path:
    (folder / "link.csv").symlink_to(pipe(folder))
    return folder / "link.csv"


SPECIAL: list[tuple[Callable[[Path], Path], str]] = [
    (pipe, "a pipe"),
    (link_to_pipe, "a pipe"),
    (listener, "a socket"),
    (lambda _: Path("/dev/zero"), "a device"),
    (lambda folder: folder, "a folder"),
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no such files")
@pytest.mark.parametrize(("make", "what"), SPECIAL)
def test_what_is_no_regular_file_is_refused_at_once(
    place: Path, make: Callable[[Path], Path], what: str
) -> None:
    path = make(place)
    with pytest.raises(DataError, match=f"cannot be read: it is {what}. Expected a regular file"):
        read_table(path)
    with pytest.raises(DataError, match=f"cannot be read: it is {what}"):
        memory_mapped(path)


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    with open_regular_file(tmp_path / "b.csv") as file:
        assert file.read() == b"a,b\n1,2\n"
    assert read_table(tmp_path / "b.csv").frame.shape == (1, 2)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be the name of a file"):
        read_table("a\x00b.csv")


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of zero bytes, which takes no space
    with pytest.raises(DataError, match="'large' is larger than 2,147 MB"):
        read_table(path)
