"""Reading in a process of its own: the same table, and an end to whatever costs too much."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import SandboxLimits, read_table, read_table_sandboxed
from lvmcore.data.readers import sandbox, sandbox_transport
from lvmcore.data.readers.sandbox import ContentSize
from lvmcore.data.readers.sandbox_worker import content_size, estimate_columns
from lvmcore.errors import ConfigError, DataError
from tests.unit.lvmcore.data.readers.bad_files import (
    gz,
    npz,
    parquet,
    repeated_text,
    shared_text,
    zipped,
)
from tests.unit.lvmcore.data.readers.workbooks import workbook

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")


def mixed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "real": [0.1, np.nan, 1e-300, np.inf],
            "whole": [1, 2, 3, -(2**53)],
            "gaps": pd.array([1, None, 3, 4], dtype="Int64"),
            "flag": [True, False, True, True],
            "maybe": pd.array([True, None, False, True], dtype="boolean"),
            "word": ["a", None, "=1+1", "ü 🎉"],
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2021-05-06"]),
            "gone": [np.nan] * 4,
        }
    )


CONTENTS = {
    "csv": mixed().to_csv(index=False).encode(),
    "semicolons": mixed().to_csv(index=False, sep=";", decimal=",").encode("utf-16"),
    "gzip": gz(mixed().to_csv(index=False).encode()),
    "units row": b"time,temp\ns,degC\n1,2.5\n2,3.5\n3,4.5\n",
    "parquet": parquet(mixed()),
    "jsonl": b'{"a": 1, "b": "x"}\n{"a": 2.5, "b": "\\ud800"}\n',
    "npz": npz(X=np.eye(3), y=np.array(["u", "v", "u"])),
    "xlsx": workbook({"Empty": [], "May": [["a", "b"], [1, 2]], "June": [["c"], [1], [2]]}),
}


@pytest.mark.slow(quick=["gzip", "npz", "semicolons"])
@pytest.mark.parametrize("kind", CONTENTS)
def test_the_table_is_the_same(kind: str) -> None:
    here = read_table(CONTENTS[kind], name="mine")
    there = read_table_sandboxed(CONTENTS[kind], name="mine")
    pd.testing.assert_frame_equal(there.frame, here.frame, check_exact=True)
    for field in ("name", "columns", "notes", "detected", "digest"):
        assert getattr(there, field) == getattr(here, field)


@pytest.mark.slow
def test_settings_reach_the_reader() -> None:
    how = {"delimiter": ";", "decimal": ",", "thousands": ".", "header": 1, "missing": ("-9", "x")}
    content = b"u;v\na;b\n1.234,5;-9\n2.345;x\n"
    here = read_table(content, name="n", **how)  # type: ignore[arg-type]
    there = read_table_sandboxed(content, name="n", **how)  # type: ignore[arg-type]
    assert there.digest == here.digest
    assert there.frame["a"].tolist() == [1234.5, 2345.0]
    assert there.frame["b"].isna().all()
    assert read_table_sandboxed(CONTENTS["xlsx"], name="n", sheet="June").frame.shape == (2, 1)


def test_a_setting_out_of_range_is_told_as_such() -> None:
    with pytest.raises(ConfigError, match="The decimal mark is 'x'"):
        read_table_sandboxed(b"a,b\n1,2\n", name="n", decimal="x")


@pytest.mark.slow
def test_nothing_is_left_among_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    read_table_sandboxed(b"a,b\n1,2\n", name="n")
    with pytest.raises(DataError):
        read_table_sandboxed(b"", name="n")
    assert list(tmp_path.iterdir()) == []


def test_time_is_limited() -> None:
    limits = SandboxLimits(seconds=0.0, columns_per_second=10**9)
    with pytest.raises(DataError, match="took longer than 0 s"):
        read_table_sandboxed(b"a,b\n1,2\n", name="n", limits=limits)


@pytest.mark.slow
@LINUX
def test_the_time_of_the_processor_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    spin = (
        "import resource, signal\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (1, 1 << 20))\n"
        "while True: pass"
    )
    monkeypatch.setattr(sandbox, "_WORKER_COMMAND", [sys.executable, "-c", spin])
    with pytest.raises(DataError, match="took longer than 10 s"):
        read_table_sandboxed(b"a,b\n1,2\n", name="n", limits=SandboxLimits(wall_factor=1000.0))


def test_time_grows_with_the_content() -> None:
    limits = SandboxLimits()
    assert limits.time_limit(ContentSize(0)) == limits.time_limit(ContentSize(8_000_000)) == 10.0
    assert limits.time_limit(ContentSize(500_000_000)) > 100.0
    assert limits.memory_limit(ContentSize(1_000_000)) == 310_000_000
    assert limits.memory_limit(ContentSize(1_000_000, 1000, 100_000)) == 324_000_000


@pytest.mark.slow
@LINUX
def test_memory_is_limited() -> None:
    limits = SandboxLimits(memory=130_000_000, memory_per_byte=0.0)
    content = b"a,b\n" + b"0.25,1\n" * 1_500_000
    with pytest.raises(DataError, match=r"more memory than|memory, more than"):
        read_table_sandboxed(content, name="n", limits=limits)


@pytest.mark.slow
def test_size_is_limited() -> None:
    limits = SandboxLimits(max_bytes=1000)
    with pytest.raises(DataError, match="larger than"):
        read_table_sandboxed(b"a,b\n" + b"1,2\n" * 500, name="n", limits=limits)
    with pytest.raises(DataError, match="larger than"):
        read_table_sandboxed(gz(b"a,b\n" + b"1,2\n" * 500), name="n", limits=limits)


def test_a_reader_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_WORKER_COMMAND", [sys.executable, "-c", "import os; os.abort()"])
    with pytest.raises(DataError, match=r"Reading 'n' needed more memory .* or failed"):
        read_table_sandboxed(b"a,b\n1,2\n", name="n")


def test_an_answer_that_is_cut_off_is_told(tmp_path: Path) -> None:
    sandbox_transport.save_table(read_table(b"a,b\n1,2\n"), tmp_path)
    cells = tmp_path / "cells.arrow"
    cells.write_bytes(cells.read_bytes()[:-30])
    with pytest.raises(DataError, match="Make room and try again"):
        sandbox_transport.load_result(tmp_path)


def test_no_room_for_the_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match="no room for it among the temporary files"):
        read_table_sandboxed(b"a,b\n1,2\n", name="n")


@pytest.mark.slow
def test_the_reader_does_not_load_torch() -> None:
    code = "import sys, lvmcore.data.readers.sandbox_worker; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (b"a,b\n1,2\n", 8),
        (gz(b"a,b\n1,2\n" * 100), 800),
        (zipped({"a": bytes(1000), "b": b"xyz"}), 1003),
        (parquet(pd.DataFrame({"x": np.zeros(100_000)})), 800_000),
    ],
)
def test_how_large_a_content_is_unpacked(content: bytes, size: int) -> None:
    assert content_size(content, "n", 10**9) == size


def test_likely_columns() -> None:
    assert estimate_columns(b"title\na;b;c\n1,5;2;3\n") == 3
    assert estimate_columns(b"," * 100_000) == 20_000


@pytest.mark.slow
def test_a_path_is_read_as_its_bytes_are(tmp_path: Path) -> None:
    path = tmp_path / "my.table.csv.gz"
    path.write_bytes(CONTENTS["gzip"])
    there, here = read_table_sandboxed(path), read_table(path)
    pd.testing.assert_frame_equal(there.frame, here.frame, check_exact=True)
    assert (there.name, there.digest) == (here.name, here.digest) == ("my.table", here.digest)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["letters", "gzip of letters", "commas", "repeated", "workbook"])
def test_a_table_that_is_larger_than_its_file_is_read(kind: str) -> None:
    """Cells of one letter, empty cells, and texts that are stored once."""
    content, shape = {
        "letters": (b"a\n" + b"x\ny\n" * 3_000_000, (6_000_000, 1)),
        "gzip of letters": (gz(b"a\n" + b"x\nyy\nz\n" * 2_000_000), (6_000_000, 1)),
        "commas": (b"," * 999 + b"a\n" + (b"," * 999 + b"1\n") * 20_000, (20_000, 1)),
        "repeated": (repeated_text(500, 1_000_000), (1_000_000, 1)),
        "workbook": (shared_text(20_000, 2_000), (1_998, 1)),
    }[kind]
    assert read_table_sandboxed(content, name="n").frame.shape == shape
