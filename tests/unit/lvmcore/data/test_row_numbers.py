"""Numbered rows have the names that an array of strings would give, without its memory."""

import json
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Dataset
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.data.row_numbers import RowNumbers, json_chunks
from lvmcore.errors import DataError

ROWS = np.array([0, 1, 4, 9, 99, 12])
NAMES = np.array(["1", "2", "5", "10", "100", "13"])


def test_they_behave_as_the_array_of_names() -> None:
    names = RowNumbers(ROWS)
    assert names.tolist() == list(names) == NAMES.tolist()
    assert len(names) == names.size == names.shape[0] == 6
    assert names.dtype == NAMES.dtype
    assert names[-1] == "13"
    assert isinstance(names[np.int64(2)], str)
    for index in (slice(1, 4), [5, 0], NAMES > "2", np.array([], dtype=int), np.arange(3)):
        assert names[index].tolist() == NAMES[index].tolist()
    assert np.asarray(names).tolist() == np.array(names).tolist() == NAMES.tolist()
    assert pd.Series(names, dtype=object).tolist() == NAMES.tolist()
    assert pickle.loads(pickle.dumps(names)).tolist() == NAMES.tolist()


@pytest.mark.parametrize("name", ["5", "05", "", "x", "-1", "0", "٣", "1" * 30, "100"])
def test_a_name_is_found_where_it_is(name: str) -> None:
    assert (RowNumbers(ROWS) == name).tolist() == (name == NAMES).tolist()
    assert (RowNumbers(ROWS) != name).tolist() == (name != NAMES).tolist()


def test_names_are_compared_one_by_one() -> None:
    names = RowNumbers(ROWS)
    assert np.all(names == NAMES)
    assert (names == RowNumbers(ROWS[::-1])).tolist() == (NAMES[::-1] == NAMES).tolist()
    assert np.array_equal(names, NAMES)


@pytest.mark.parametrize("length", [0, 1, 7, 70_000])
def test_the_json_is_that_of_the_list(length: int) -> None:
    names = RowNumbers(np.arange(length) * 3)
    assert "".join(json_chunks(names)) == json.dumps(names.tolist())
    assert "".join(json_chunks(np.asarray(names))) == json.dumps(names.tolist())


def test_a_dataset_of_numbered_rows_is_that_of_its_names(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((80, 3))
    numbered = Dataset.from_arrays(X)
    named = Dataset.from_arrays(X, row_ids=[str(row + 1) for row in range(80)])
    assert isinstance(numbered.row_ids, RowNumbers)
    assert not isinstance(named.row_ids, RowNumbers)
    assert numbered.digest == named.digest
    keep = np.arange(3, 80, 7)
    assert numbered.subset(keep).digest == named.subset(keep).digest
    files = [
        (save_dataset(one.subset(keep), tmp_path / kind) / "data.parquet").read_bytes()
        for kind, one in (("numbered", numbered), ("named", named))
    ]
    assert files[0] == files[1]
    again = load_dataset(tmp_path / "named")
    assert isinstance(again.row_ids, RowNumbers)
    assert again.row_ids.tolist() == named.row_ids[keep].tolist()


def test_names_of_other_rows_stay_names(tmp_path: Path) -> None:
    X = np.eye(3)
    again = load_dataset(save_dataset(Dataset.from_arrays(X, row_ids=["2", "1", "3"]), tmp_path))
    assert again.row_ids.tolist() == ["2", "1", "3"]


def test_a_row_that_is_taken_twice_is_refused() -> None:
    dataset = Dataset.from_arrays(np.eye(4))
    with pytest.raises(DataError, match="row id '2' occurs twice, at 1 and 3"):
        dataset.subset(np.array([1, 0, 1]))
    assert dataset.subset(np.array([2, 0, 1])).row_ids.tolist() == ["3", "1", "2"]


def test_a_long_dataset_takes_no_memory_for_its_row_names() -> None:
    X = np.zeros((200_000, 1))
    tracemalloc.start()
    dataset = Dataset.from_arrays(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert dataset.row_ids[199_999] == "200000"
    # X, the frame, the positions, their hash and masks; a list of the names adds 64 bytes a row.
    assert peak < 80 * len(X)
