"""All rows of registered files on disk: equal to the table in memory, with their types checked."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import read_table
from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.data.long_tables import file_blocks
from lvmcore.data.long_tables.mapped_rows import map_rows
from lvmcore.data.readers import sandbox
from lvmcore.data.readers.sandbox import read_files_sandboxed
from lvmcore.errors import CancelledError, DataError

NAMES = ["height", "width", "answer", "colour"]


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of 60 rows, and blocks of 32."""
    monkeypatch.setattr(sandbox, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(file_blocks, "BLOCK_ROWS", 32)
    monkeypatch.setattr(file_blocks.rows_of_block, "__defaults__", (32,))


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    n = 203
    found = pd.DataFrame(
        {
            "height": rng.standard_normal(n),
            "width": np.exp(rng.standard_normal(n)),
            "answer": rng.choice(["yes", "no"], n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "kind": rng.choice(["a", "b"], n),
        }
    )
    found.loc[3::17, "height"] = np.nan
    found.loc[5::29, "colour"] = None
    found.loc[7::31, "kind"] = None
    return found


def dataset_of(table: object, **more: object) -> Dataset:
    return table.dataset(  # type: ignore[attr-defined, no-any-return]
        features=[*NAMES, "day"], one_hot=["colour"], log1p=["width"], label="kind", **more
    )


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
def test_features_and_labels_are_those_of_the_table_in_memory(
    frame: pd.DataFrame, tmp_path: Path, ending: str
) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    for k, part in enumerate((frame.iloc[:90], frame.iloc[90:])):
        path = folder / f"{k}.{ending}"
        part.to_parquet(path) if ending == "parquet" else part.to_csv(path, index=False)
    whole = tmp_path / f"whole.{ending}"
    frame.to_parquet(whole) if ending == "parquet" else frame.to_csv(whole, index=False)
    expected = dataset_of(read_table(whole))
    sample = dataset_of(read_files_sandboxed([folder]))
    mapped = map_rows(sample, tmp_path / "array")
    assert mapped.n_rows == 203
    assert len(sample) == 60
    assert mapped.X.columns == expected.transformed_names
    np.testing.assert_array_equal(np.asarray(mapped.X), expected.X)
    np.testing.assert_array_equal(mapped.y(), expected.labels)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.asarray(mapped.X)[mapped.sampled], sample.X)
    np.testing.assert_array_equal(expected.X[sample.rows], sample.X)


def test_the_array_is_written_once(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    sample = dataset_of(read_files_sandboxed([path]))
    map_rows(sample, tmp_path / "array")
    before = (tmp_path / "array" / "rows.npy").stat().st_mtime_ns
    again = map_rows(sample, tmp_path / "array")
    assert (tmp_path / "array" / "rows.npy").stat().st_mtime_ns == before
    assert len(again.X) == 203


def test_rows_without_a_cell_or_with_an_infinite_one_are_left_out(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame = frame[["height", "width"]].copy()
    frame.loc[[40, 100], :] = np.nan
    frame.loc[150, "width"] = np.inf
    path = tmp_path / "a.parquet"
    frame.to_parquet(path, row_group_size=50)
    sample = read_files_sandboxed([path]).dataset()
    mapped = map_rows(sample, tmp_path / "array")
    np.testing.assert_array_equal(mapped.left_out, [40, 100, 150])
    kept = frame.drop(index=[40, 100, 150])
    np.testing.assert_array_equal(np.asarray(mapped.X), kept.to_numpy())
    np.testing.assert_array_equal(mapped.positions(), kept.index)
    assert mapped.notes == (
        "1 row of all 203 left out: an infinite value.",
        "2 rows of all 203 left out: no cell.",
    )


def test_the_first_cell_of_another_type_is_named(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("a,b\n" + "1.5,2\n" * 200)
    second.write_text("a,b\n" + "1.5,2\n" * 70 + "1.5,2 kg\nlong,3\n")
    sample = read_files_sandboxed([first, second]).dataset()
    with pytest.raises(DataError, match=r"Row 71 of 'b.csv' has '2 kg' in column 'b'"):
        map_rows(sample, tmp_path / "array")
    assert list((tmp_path / "array").iterdir()) == []


def test_a_date_or_a_negative_number_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1.5,2\n" * 100 + "1.5,-3\n")
    sample = read_files_sandboxed([path]).dataset(log1p=["b"])
    with pytest.raises(DataError, match=r"In 'a.csv': .*'b'.*row 101"):
        map_rows(sample, tmp_path / "array")
    path.write_text("a,day\n" + "1.5,2020-01-05\n2.5,2021-01-05\n" * 50 + "1.5,soon\n")
    sample = read_files_sandboxed([path]).dataset(features=["a", "day"])
    with pytest.raises(DataError, match=r"In 'a.csv': .*row 101 has 'soon', which is no date"):
        map_rows(sample, tmp_path / "array2")


def test_a_changed_file_and_a_request_to_stop_leave_nothing(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    sample = dataset_of(read_files_sandboxed([path]))
    with pytest.raises(CancelledError):
        map_rows(sample, tmp_path / "array", lambda done, _: done > 100)
    assert list((tmp_path / "array").iterdir()) == []
    frame.iloc[1:].to_parquet(path)
    with pytest.raises(DataError, match="changed after the table was registered"):
        map_rows(sample, tmp_path / "array")


def test_a_sample_is_stored_with_its_files(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    sample = dataset_of(read_files_sandboxed([path]))
    found = load_dataset(save_dataset(sample, tmp_path / "stored"))
    assert found.files == sample.files
    assert found.digest == sample.digest
    assert sample.digest != dataset_of(read_table(path)).digest


def test_rows_of_files_cannot_be_held_out(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    with pytest.raises(DataError, match="can be held out"):
        dataset_of(read_files_sandboxed([path]), hold_out=0.2)
