"""Files that are registered in place: which ones belong to a table, and whether they changed."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data.readers.sandbox import read_files_sandboxed
from lvmcore.data.table_files import TableFiles, file_stamp, find_table_files
from lvmcore.errors import DataError


def write(path: Path, rows: int = 40, seed: int = 0) -> Path:
    X = np.random.default_rng(seed).standard_normal((rows, 3))
    pd.DataFrame(X, columns=["a", "b", "c"]).to_parquet(path)
    return path


def test_a_folder_gives_its_files_by_name_without_those_of_other_programs(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", "_tmp.parquet", ".hidden.parquet"):
        write(tmp_path / name)
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep" / "c.parquet")
    (tmp_path / "notes.txt").write_text("no table")
    names = [path.name for path in find_table_files([tmp_path])]
    assert names == ["a.parquet", "b.parquet", "c.parquet"]
    again = find_table_files([tmp_path / "b.parquet", tmp_path])
    assert [path.name for path in again] == ["b.parquet", "a.parquet", "c.parquet"]


def test_folders_without_one_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file with the extension"):
        find_table_files([tmp_path])
    write(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match="both Parquet and CSV"):
        find_table_files([tmp_path])
    with pytest.raises(DataError, match="There is no file or folder"):
        find_table_files([tmp_path / "none"])


def test_the_sample_of_parquet_files_is_spread_over_them(tmp_path: Path) -> None:
    for k in range(4):
        path = tmp_path / f"{k}.parquet"
        pd.DataFrame({"place": np.arange(6000) + 6000 * k, "x": 0.5}).to_parquet(path)
    table = read_files_sandboxed([tmp_path])
    files = table.files
    assert files is not None
    assert files.n_rows == 24_000
    assert not files.complete
    assert files.sampled == ((0, 2500), (6000, 2500), (12_000, 2500), (18_000, 2500))
    dataset = table.dataset(features=["place", "x"])
    assert (dataset.rows == dataset.X[:, 0]).all()
    assert dataset.row_ids[2500] == "6001"
    assert "10,000 of the 24,000 rows of 4 files" in table.notes[-1]


def test_a_small_csv_is_its_own_sample_and_keeps_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n\nheight;kind\n1,5;x\nn/d;y\n2,5;x\n")
    files = read_files_sandboxed([path]).files
    assert files is not None
    assert (files.delimiter, files.decimal, files.header_lines) == (";", ",", 3)
    assert files.columns == (("height", "number"), ("kind", "text"))
    assert files.n_rows is None
    assert TableFiles.from_json(files.to_json()) == files


def test_files_of_different_tables_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    pd.DataFrame({"a": [1.0], "b": ["x"], "c": [1.0]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"Column 'b' of 'b.parquet' is .*double in 'a.parquet'"):
        read_files_sandboxed([tmp_path])
    pd.DataFrame({"a": [1.0], "c": [1.0]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"'b.parquet' has no column 'b'"):
        read_files_sandboxed([tmp_path])
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("a,b\n1,2\n")
    second.write_text("b,a\n1,2\n")
    with pytest.raises(DataError, match=r"first line of 'b.csv' is not that of 'a.csv'"):
        read_files_sandboxed([first, second])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": 2}\n', "of the format jsonl"),
        ("a b\n1 2\n3 4\n5 6\n", "not separated by one character"),
        ("a;b\n1.234.567,5;x\n2.234.567,5;y\n", "between groups of digits"),
    ],
)
def test_texts_that_cannot_be_read_in_blocks_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_files_sandboxed([path])


def test_a_changed_file_is_named_and_a_touched_one_is_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    files = read_files_sandboxed([path]).files
    assert files is not None
    files.check_unchanged()
    os.utime(path, ns=(1, 1))
    files.check_unchanged()  # another time alone is no other content
    stamp = file_stamp(path)
    write(path, seed=1)
    assert file_stamp(path).digest != stamp.digest
    with pytest.raises(DataError, match=r"a.parquet' changed after the table was registered"):
        files.check_unchanged()
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        files.check_unchanged()
