"""Files made memory-mapped arrays, some rows at a time."""

import datetime
import gc
import gzip
import shutil
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lvmcore.data import MappedTable, memory_mapped
from lvmcore.data.long_tables import record_batches
from lvmcore.errors import ConfigError, DataError

N = 230


def frame(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "weight": rng.normal(size=n) * 1e3,
            "length.mm": (rng.integers(-99, 99, size=n) / 4).astype(np.float32),
            "count": rng.integers(-5, 5, size=n),
            "type": rng.choice(["one", "two", "drei"], size=n),
        }
    )


@pytest.fixture(params=["parquet", "csv", "csv.gz"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pd.DataFrame], Path]:
    """Writes a table in one of the formats."""

    def to_file(table: pd.DataFrame) -> Path:
        path = tmp_path / f"big.{request.param}"
        if request.param == "parquet":
            table.to_parquet(path, row_group_size=50)
        else:
            table.to_csv(path, index=False)
        return path

    return to_file


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of about 20 rows, in either format."""
    monkeypatch.setattr(record_batches, "CELLS_PER_BATCH", 80)
    monkeypatch.setattr(record_batches, "BYTES_PER_BATCH", 800)


def parquet(folder: Path, **columns: Any) -> Path:
    path = folder / "small.parquet"
    pq.write_table(pa.table(columns), path)
    return path


# ---- what comes out ----------------------------------------------------------------------------


def test_an_array_on_disk_and_the_labels(write: Callable[[pd.DataFrame], Path]) -> None:
    table = frame()
    X, y = memory_mapped(write(table), label="type")
    assert isinstance(X, MappedTable)
    assert isinstance(X, np.memmap)
    assert X.columns == ("weight", "length.mm", "count")
    assert X.dtype == np.float64
    assert not X.flags.writeable
    np.testing.assert_array_equal(X, table.drop(columns="type").to_numpy(dtype=np.float64))
    assert y.tolist() == table["type"].tolist()


def test_missing_cells_are_nan_and_missing_labels_none(
    write: Callable[[pd.DataFrame], Path],
) -> None:
    table = frame().convert_dtypes()
    table.loc[::7, "weight"] = pd.NA
    table.loc[:60, "count"] = pd.NA  # no value at all in the first batches
    table.loc[3:5, "type"] = None
    X, y = memory_mapped(write(table), label="type")
    expected = table.drop(columns="type").to_numpy(dtype=np.float64, na_value=np.nan)
    np.testing.assert_array_equal(X, expected)
    assert np.isnan(X[0, 0])
    assert [row for row, label in enumerate(y) if label is None] == [3, 4, 5]
    assert y[6] == table["type"][6]


def test_some_columns_in_the_order_asked_for(write: Callable[[pd.DataFrame], Path]) -> None:
    table = frame()
    X, y = memory_mapped(write(table), features=["count", "weight"], dtype="float32")
    assert X.columns == ("count", "weight")
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, table[["count", "weight"]].to_numpy(dtype=np.float32))
    assert y is None


def test_several_label_columns_are_a_frame(write: Callable[[pd.DataFrame], Path]) -> None:
    table = frame().assign(sex=np.resize(["f", "m", "m"], N))
    X, y = memory_mapped(write(table), label=["sex", "count", "type"])
    assert X.columns == ("weight", "length.mm")
    assert list(y) == ["sex", "count", "type"]
    for name in y:
        assert y[name].tolist() == table[name].tolist()


def test_every_kind_of_number_in_parquet(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        flag=pa.array([True, None, False]),
        small=pa.array([1, None, -3], pa.int8()),
        large=pa.array([2**63, 1, None], pa.uint64()),
        half=pa.array(np.array([0.5, 1.5, np.nan], np.float16)),
        money=pa.array([Decimal("1.25"), None, Decimal("-3.50")]),
        nothing=pa.nulls(3),
        code=pa.array([10, 20, 10]).dictionary_encode(),
        kind=pa.array(["a", None, "b"]).dictionary_encode(),
    )
    X, y = memory_mapped(path, label="kind")
    expected = [
        [1, 1, 2.0**63, 0.5, 1.25, np.nan, 10],
        [np.nan, np.nan, 1, 1.5, np.nan, np.nan, 20],
        [0, -3, np.nan, np.nan, -3.5, np.nan, 10],
    ]
    np.testing.assert_array_equal(X, expected)
    assert y.tolist() == ["a", None, "b"]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([3, 1, 3], "i"),
        ([True, False, True], "b"),
        ([1.5, 0.0, 1.5], "f"),
        (["x", "", "x"], "O"),
        ([3, 1, None], "O"),
        ([True, None, False], "O"),
        (["x", "", None], "O"),
        ([1.0, None, 2.0], "O"),
    ],
)
def test_labels_are_what_the_file_says(labels: list[Any], kind: str, tmp_path: Path) -> None:
    _, y = memory_mapped(parquet(tmp_path, a=[1.0, 2.0, 3.0], b=labels), label="b")
    assert y.tolist() == labels
    assert y.dtype.kind == kind


def test_an_index_that_pandas_stored_is_no_column(tmp_path: Path) -> None:
    table = frame(30)[["weight", "count"]]
    table.index = pd.Index(np.arange(30)[::-1] * 2)
    path = tmp_path / "indexed.parquet"
    table.to_parquet(path)
    X, _ = memory_mapped(path)
    assert X.columns == ("weight", "count")


def test_an_index_with_a_name_is_no_feature_but_may_be_the_label(tmp_path: Path) -> None:
    path = tmp_path / "indexed.parquet"
    frame(30).set_index("type")[["weight"]].to_parquet(path)
    X, y = memory_mapped(path, label="type")
    assert X.columns == ("weight",)
    assert y.tolist() == frame(30)["type"].tolist()
    assert memory_mapped(path)[0].columns == ("weight",)


def test_a_delimiter_inside_a_name_is_none(tmp_path: Path) -> None:
    path = tmp_path / "text.csv"
    path.write_text('\n"Weight, in kg, dry";"Height, cm"\n1;2\n')
    X, _ = memory_mapped(path)
    assert X.columns == ("Weight, in kg, dry", "Height, cm")


def test_many_classes_in_a_dictionary_of_small_numbers(tmp_path: Path) -> None:
    words = [f"class {n}" for n in range(128)]
    kinds = pa.DictionaryArray.from_arrays(pa.array(range(128), pa.int8()), pa.array(words))
    _, y = memory_mapped(parquet(tmp_path, a=np.arange(128.0), kind=kinds), label="kind")
    assert y.tolist() == words


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_text_is_found(delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(delimiter.join("abc") + "\n" + delimiter.join(["1", "2.5", "NA"]) + "\n")
    X, _ = memory_mapped(path)
    np.testing.assert_array_equal(X, [[1, 2.5, np.nan]])


def test_whole_numbers_may_go_on_as_others(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000 + "1.5,3\n")
    X, y = memory_mapped(path, label="b")
    assert X[-1, 0] == 1.5
    assert y[-1] == 3


# ---- rows of it --------------------------------------------------------------------------------


def test_rows_keep_the_names_and_columns_do_not(tmp_path: Path) -> None:
    X, _ = memory_mapped(parquet(tmp_path, a=[1.0, 2.0, 3.0], b=[4.0, 5.0, 6.0]))
    for rows in (slice(1, 3), slice(None, None, -1), [2, 0], np.array([True, False, True])):
        assert X[rows].columns == X[rows, ...].columns == X[rows, :].columns == ("a", "b")
        np.testing.assert_array_equal(X[rows], np.asarray(X)[rows])
    for other in (X[:, ::-1], X[:, [1, 0]], X[:2, :1], X[:, None], X.T, X[0], X + 1, X.copy()):
        assert getattr(other, "columns", None) is None
    assert X[1, 1] == 5.0


# ---- where it lies -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_temporary_array_goes_with_the_last_that_uses_it(tmp_path: Path) -> None:
    X, _ = memory_mapped(parquet(tmp_path, a=[1.0, 2.0]))
    folder = Path(str(X.filename)).parent
    rows = X[1:]
    del X
    gc.collect()
    assert folder.exists()
    assert rows.tolist() == [[2.0]]
    del rows
    gc.collect()
    assert not folder.exists()


@pytest.mark.slow
def test_an_array_in_a_folder_stays(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    X, _ = memory_mapped(parquet(tmp_path, a=[1.0, 2.0]), folder=folder)
    del X
    gc.collect()
    assert [path.name for path in folder.iterdir()] == ["small.npy"]
    np.testing.assert_array_equal(np.load(folder / "small.npy", mmap_mode="r"), [[1.0], [2.0]])


def test_a_file_of_that_name_is_never_replaced(tmp_path: Path) -> None:
    source = parquet(tmp_path, a=[1.0, 2.0])
    np.save(tmp_path / "small.npy", np.arange(7))
    with pytest.raises(DataError, match="is there already"):
        memory_mapped(source, folder=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "small.npy"), np.arange(7))


def test_nothing_is_left_of_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000 + "x,3\n")
    for where in (folder, None):
        with pytest.raises(DataError, match="'x'"):
            memory_mapped(path, folder=where)
    assert list(folder.iterdir()) == list(scratch.iterdir()) == []


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "holds"),
    [
        (["x", "y"], "text"),
        ([datetime.date(2024, 1, 1), None], "dates or times"),
        ([datetime.datetime(2024, 1, 1, 12), None], "dates or times"),
        ([[1.0], [2.0]], "lists or records"),
        ([{"a": 1}, {"a": 2}], "lists or records"),
        ([b"x", b"y"], "bytes"),
        (pa.array(["x", "y"]).dictionary_encode(), "text"),
    ],
)
def test_columns_to_learn_from_hold_numbers(cells: Any, holds: str, tmp_path: Path) -> None:
    path = parquet(tmp_path, a=[1.0, 2.0], b=cells)
    with pytest.raises(DataError, match=rf"Column 'b' of 'small.parquet' holds {holds}: expected"):
        memory_mapped(path)
    X, _ = memory_mapped(path, features=["a"])
    assert X.shape == (2, 1)
    if holds != "text":
        with pytest.raises(DataError, match=rf"'b' .* holds {holds}, which are no labels"):
            memory_mapped(path, label="b")


def test_several_columns_without_numbers_are_counted(tmp_path: Path) -> None:
    path = parquet(tmp_path, a=[1.0], b=["x"], c=["y"], d=["z"])
    with pytest.raises(DataError, match=r"'b' .* holds text, and 2 more hold no numbers"):
        memory_mapped(path)


@pytest.mark.parametrize("asked", [{"label": "d"}, {"features": ["a", "d"]}, {"label": ["b", "d"]}])
def test_a_column_that_is_not_there_is_named(asked: dict[str, Any], tmp_path: Path) -> None:
    path = parquet(tmp_path, a=[1.0], b=["x"])
    with pytest.raises(DataError, match=r"no column 'd': its columns are a, b\."):
        memory_mapped(path, **asked)


@pytest.mark.parametrize(
    "asked",
    [{"features": ["a", "b"], "label": "b"}, {"features": ["a", "a"]}, {"dtype": "int8"}],
)
def test_what_cannot_be_asked_for(asked: dict[str, Any], tmp_path: Path) -> None:
    path = parquet(tmp_path, a=[1.0], b=[2.0])
    with pytest.raises(ConfigError, match=r"asked for twice|dtype='int8' cannot be used"):
        memory_mapped(path, **asked)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), path)
    with pytest.raises(DataError, match="two columns called 'a'"):
        memory_mapped(path)


def test_a_table_without_rows_or_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no rows"):
        memory_mapped(parquet(tmp_path, a=pa.array([], pa.float64())))
    with pytest.raises(DataError, match="no column to learn from"):
        memory_mapped(parquet(tmp_path, a=[1.0]), label="a")
    header = tmp_path / "header.csv"
    header.write_text("a,b\n")
    with pytest.raises(DataError, match="has no rows"):
        memory_mapped(header)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty. Expected Parquet or CSV"),
        (b"\n\n", "is empty"),
        (gzip.compress(b""), "is empty"),
        (b"PAR1 and no more", "cannot be read"),
        (b"\x93NUMPY\x01\x00", "NumPy array: open it with numpy.load"),
        (b"\x00\x01\x02", "is not text"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 5000)[:40], "cannot be read"),
        (b"a,b\n1,2,3\n", "cannot be read"),
        (b"a,b\n1,caf\xe9\n", "cannot be read|holds bytes"),
        (b"Gr\xf6\xdfe,b\n1,2\n", "cannot be read"),
    ],
    ids=["empty", "blank", "gzip", "parquet", "npy", "binary", "cut", "ragged", "latin", "header"],
)
def test_what_is_no_such_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / ("some.csv.gz" if content.startswith(b"\x1f\x8b") else "some.file")
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        memory_mapped(path)


def test_a_damaged_parquet_file_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "whole.parquet"
    frame().to_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:3000] = b"\xff" * 2996
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        memory_mapped(path, label="type")


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no file"):
        memory_mapped(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        memory_mapped(tmp_path)


def test_a_number_too_large_for_float32_is_located(tmp_path: Path) -> None:
    path = parquet(tmp_path, a=[1.0] * 100 + [1e300, 1e300], b=[np.inf] * 102)
    with pytest.raises(DataError, match=r"row 101, column a of .* too large for float32"):
        memory_mapped(path, dtype="float32")
    assert memory_mapped(path)[0][-1, 0] == 1e300


def test_no_room_is_said_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usual._replace(free=500_000))
    path = parquet(tmp_path, a=np.ones(100_000))
    with pytest.raises(DataError, match=r"takes 0\.8 MB, and .* has 0\.5 MB free\. Choose"):
        memory_mapped(path, folder=tmp_path / "out")
    assert memory_mapped(path, dtype="float32")[0].shape == (100_000, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_no_room_is_said_when_it_comes_to_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    usual = Path.open

    def full(path: Path, mode: str = "r", *rest: Any, **named: Any) -> Any:
        return usual(Path("/dev/full") if path.suffix == ".partial" else path, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DataError, match=r"cannot be written .*No space left.*takes half"):
        memory_mapped(parquet(tmp_path, a=[1.0] * 30), folder=folder)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are of another kind there")
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        memory_mapped(parquet(tmp_path, a=[1.0]), folder=blocked / "below")
