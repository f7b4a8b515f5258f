"""From a table to the matrix that models see: what is chosen, left out, coded, saved."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import (
    Dataset,
    Table,
    propose_image_shape,
    propose_label,
    propose_row_id,
    read_table,
)
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.errors import DataError
from lvmcore.preprocessing.picture_shape import pixel_names

#: Of a dataset of grey pictures, as a version computed it that knew no pictures in colour.
EARLIER_DIGEST = "73e6227ef68d0963c777fac155ee2ba5ef1a1c042518b90b063e86568b06b45b"


@pytest.fixture
def table() -> Table:
    frame = pd.DataFrame(
        {
            "sample_id": ["s1", "s2", "s3", "s4", "s5", "s6"],
            "mass": [1.5, np.nan, 2.5, 3.5, 0.5, 7.25],
            "cells": [3, 1, 4, 1, 5, 9],
            "alive": ["yes", "no", "yes", None, "yes", "no"],
            "tissue": ["liver", "lung", "liver", "lung", "skin", "skin"],
            "taken": pd.to_datetime([f"2024-05-{day:02d}" for day in range(20, 26)]),
            "species": ["mouse", "rat", None, "rat", "mouse", "rat"],
        }
    )
    return Table.from_frame(frame, name="biopsies")


def test_default_features(table: Table) -> None:
    dataset = table.dataset(label="species", row_id="sample_id")
    assert dataset.feature_names == ("mass", "cells", "alive")
    assert dataset.name == "biopsies"
    assert dataset.X.dtype == np.float64
    np.testing.assert_array_equal(dataset.X[:, 2], [1, 0, 1, np.nan, 1, 0])
    assert dataset.row_ids.tolist() == ["s1", "s2", "s3", "s4", "s5", "s6"]
    assert dataset.labels is not None
    assert dataset.labels.tolist() == ["mouse", "rat", None, "rat", "mouse", "rat"]
    assert dataset.classes == ("mouse", "rat")
    assert dataset.notes == (
        "Column 'tissue' left out: it is a category; it can be one-hot features, the label "
        "or a colour.",
        "Column 'taken' left out: it is a date; it can be a feature.",
        "Column 'alive' is coded 0 = 'no', 1 = 'yes'.",
        "1 row has no label; it is kept.",
    )
    assert list(dataset.frame.columns) == list(table.frame.columns)


def test_chosen_features_keep_their_order(table: Table) -> None:
    dataset = table.dataset(features=["cells", "mass"], name="two")
    assert dataset.feature_names == ("cells", "mass")
    assert dataset.labels is None
    assert dataset.label_name is None
    assert dataset.row_ids.tolist() == ["1", "2", "3", "4", "5", "6"]
    assert dataset.name == "two"


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"features": ["mass", "weight"]}, "There is no column 'weight'"),
        ({"features": "mass"}, "Expected a list"),
        ({"features": ["mass", "mass"]}, "'mass' occurs twice"),
        ({"features": []}, "'biopsies' has no feature column"),
        (
            {"features": ["tissue"]},
            r"'tissue' cannot be a feature: row 1 has 'liver'.*as the label",
        ),
        ({"features": ["sample_id"]}, "row 1 has 's1', which is not a number"),
        ({"features": ["mass"], "label": "mass"}, "both a feature and the label"),
        ({"row_id": "tissue"}, "'liver' occurs in row 1 and in row 3"),
        ({"row_id": "mass"}, "the cell in row 2 is missing"),
        ({"label": "nothing"}, "There is no column 'nothing'"),
    ],
)
def test_refused_choices(table: Table, choice: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        table.dataset(**choice)  # type: ignore[arg-type]


def test_labels_are_strings() -> None:
    table = read_table(b"x,label\n0.5,0\n1.5,1\n2.5,\n3.5,2\n4.5,0\n5.5,1\n6.5,2\n")
    dataset = table.dataset(label="label")
    assert dataset.labels is not None
    assert dataset.labels.tolist() == ["0", "1", None, "2", "0", "1", "2"]


def test_complete_rows(table: Table) -> None:
    dataset = table.dataset(row_id="sample_id", label="species")
    complete = dataset.complete_rows()
    assert complete.row_ids.tolist() == ["s1", "s3", "s5", "s6"]
    assert complete.rows.tolist() == [0, 2, 4, 5]
    assert complete.frame["tissue"].tolist() == ["liver", "liver", "skin", "skin"]
    assert complete.notes[-1] == (
        "2 rows left out: a cell is missing, most often in 'mass' (1), 'alive' (1)."
    )
    assert complete.digest != dataset.digest
    assert complete.complete_rows() is complete


def test_complete_rows_drops_empty_columns_first() -> None:
    X = np.array([[1.0, np.nan], [2.0, np.nan]])
    complete = Dataset.from_arrays(X, feature_names=["a", "b"]).complete_rows()
    assert complete.X.tolist() == [[1.0], [2.0]]
    assert complete.notes == ("Column 'b' left out: every cell is missing.",)


def test_complete_rows_without_any() -> None:
    X = np.array([[1.0, np.nan], [np.nan, 2.0]])
    with pytest.raises(DataError, match="Every one of the 2 rows"):
        Dataset.from_arrays(X).complete_rows()
    with pytest.raises(DataError, match="Every cell"):
        Dataset.from_arrays(X * np.nan).complete_rows()


def test_save_and_load(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label="species", row_id="sample_id")
    folder = save_dataset(dataset, tmp_path / "deep" / "folder")
    assert sorted(path.name for path in folder.iterdir()) == ["data.parquet", "dataset.json"]
    loaded = load_dataset(folder)
    assert loaded.digest == dataset.digest
    np.testing.assert_array_equal(loaded.X, dataset.X)
    assert loaded.labels is not None
    assert dataset.labels is not None
    assert loaded.labels.tolist() == dataset.labels.tolist()
    pd.testing.assert_frame_equal(loaded.frame, dataset.frame)
    for name in ("feature_names", "label_name", "name", "notes", "image_shape"):
        assert getattr(loaded, name) == getattr(dataset, name)
    assert loaded.rows.tolist() == dataset.rows.tolist()


def test_load_refuses_what_is_not_as_saved(table: Table, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dataset\.json is not there"):
        load_dataset(tmp_path)
    folder = save_dataset(table.dataset(), tmp_path)
    meta = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    (folder / "dataset.json").write_text(json.dumps(meta | {"label_name": "x"}), encoding="utf-8")
    with pytest.raises(DataError, match="was changed"):
        load_dataset(folder)
    (folder / "dataset.json").write_text(json.dumps(meta), encoding="utf-8")
    content = (folder / "data.parquet").read_bytes()
    (folder / "data.parquet").write_bytes(content[:-30])
    with pytest.raises(DataError, match="is damaged"):
        load_dataset(folder)


def test_a_failed_save_leaves_what_was_there(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table.dataset()
    save_dataset(first, tmp_path)

    def full_disk(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_dataset(table.dataset(features=["mass"]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "data.parquet",
        "dataset.json",
    ]
    assert load_dataset(tmp_path).digest == first.digest


def test_from_arrays() -> None:
    dataset = Dataset.from_arrays([[1, 2], [3, np.nan]], labels=["a", None], name="small")
    assert dataset.feature_names == ("x1", "x2")
    assert dataset.row_ids.tolist() == ["1", "2"]
    assert dataset.labels is not None
    assert dataset.labels.tolist() == ["a", None]
    assert list(dataset.frame.columns) == ["x1", "x2", "label"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": [1.0, 2.0]}, "rows by columns"),
        ({"X": np.empty((0, 3))}, "at least one of each"),
        ({"X": [["a", "b"]]}, "not a matrix of numbers"),
        ({"X": [[1.0, np.inf]]}, "infinite value in row 1, column 'x2'"),
        ({"X": [[1.0, 2.0]], "feature_names": ["a"]}, "1 feature names for 2 columns"),
        ({"X": [[1.0, 2.0]], "feature_names": ["a", "a"]}, "'a' occurs twice"),
        ({"X": [[1.0], [2.0]], "labels": ["a"]}, "1 labels for 2 rows"),
        ({"X": [[1.0], [2.0]], "row_ids": ["r", "r"]}, "'r' occurs twice"),
        ({"X": [[1.0, 2.0]], "image_shape": (2, 2)}, "does not have 2 pixels"),
        ({"X": np.ones((1, 12)), "image_shape": (2, 3, 3)}, "does not have 12 values of pixels"),
        ({"X": np.ones((1, 12)), "image_shape": (2, 2, 4)}, r"\(height, width, 3\) for pictures"),
        ({"X": np.ones((1, 12)), "image_shape": (12,)}, "is no shape of pictures"),
        ({"X": np.ones((1, 12)), "image_shape": (-3, -4)}, "is no shape of pictures"),
    ],
)
def test_from_arrays_refuses(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(**arguments)  # type: ignore[arg-type]


def test_digest_sees_everything_that_matters() -> None:
    X = np.array([[1.0, 2.0], [3.0, np.nan]])
    base = Dataset.from_arrays(X, labels=["a", "b"]).digest
    assert Dataset.from_arrays(X.copy(), labels=["a", "b"], name="other").digest == base
    assert Dataset.from_arrays(np.asfortranarray(X), labels=["a", "b"]).digest == base
    assert Dataset.from_arrays(X + 1e-12, labels=["a", "b"]).digest != base
    assert Dataset.from_arrays(X, labels=["a", None]).digest != base
    assert Dataset.from_arrays(X, labels=["a", "b"], feature_names=["u", "v"]).digest != base
    assert Dataset.from_arrays(X, labels=["a", "b"], row_ids=["2", "1"]).digest != base
    assert Dataset.from_arrays(X).digest != base


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        ([f"pixel_{i}_{j}" for i in range(3) for j in range(5)], (3, 5)),
        ([f"pixel{i}" for i in range(64)], (8, 8)),
        ([f"px_{i}" for i in range(1, 17)], (4, 4)),
        ([f"pixel{i}" for i in range(60)], None),
        ([f"pixel_{j}_{i}" for i in range(3) for j in range(5)], None),
        (["pixel_0_0"], None),
        ([f"pixel_{i}_{j}_{c}" for i in (0, 1) for j in range(3) for c in "rgb"], (2, 3, 3)),
        ([f"px {i},{j} {c}" for i in (5, 6) for j in (1, 2) for c in (1, 2, 3)], (2, 2, 3)),
        ([f"log(1 + p{i}_{j}_{c})" for i in (0, 1) for j in (0, 1) for c in (0, 1, 2)], (2, 2, 3)),
        ([f"pixel_{i}_{j}_{c}" for c in "rgb" for i in (0, 1) for j in range(3)], None),
        ([f"pixel_{i}_{j}_{c}" for i in (0, 1) for j in range(3) for c in "bgr"], None),
        ([f"pixel_{i}_{j}_{c}" for i in (0, 1) for j in range(3) for c in "rg"], None),
        ([f"pixel_{i}_{j}_r" for i in (0, 1) for j in range(3)], None),
        ([f"pixel_{i}_{j}_{c}" for i in (0, 1) for j in range(3) for c in "rgb"][:-1], None),
        (["pixel_0_0", "pixel_0_1", "pixel_1_0", "pixel_1_1_r"], None),
        ([f"pixel{i}" for i in range(12 * 16 * 3 + 1)], None),
        (["a", "b", "c", "d"], None),
        ([], None),
    ],
)
def test_image_shape(names: list[str], shape: tuple[int, ...] | None) -> None:
    assert propose_image_shape(names) == shape


@pytest.mark.parametrize("shape", [(2, 3), (61, 80), (2, 3, 3), (12, 16, 3)])
def test_names_of_pixels_tell_the_shape(shape: tuple[int, int] | tuple[int, int, int]) -> None:
    names = pixel_names(shape)
    assert len(set(names)) == len(names) == np.prod(shape)
    assert propose_image_shape(names) == shape
    X = np.ones((2, len(names)))
    assert Dataset.from_arrays(X, image_shape=shape).feature_names == tuple(names)


def test_pictures_in_colour_are_stored(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((5, 3 * 4 * 3))
    dataset = Dataset.from_arrays(X, image_shape=(3, 4, 3))
    found = load_dataset(save_dataset(dataset, tmp_path))
    assert found.image_shape == (3, 4, 3)
    assert found.digest == dataset.digest
    np.testing.assert_array_equal(found.X, X)
    assert found.subset(np.array([0, 3])).image_shape == (3, 4, 3)
    other = Dataset.from_arrays(X, None, dataset.feature_names, image_shape=(4, 3, 3))
    assert other.digest != dataset.digest


def test_a_store_of_an_earlier_version_keeps_its_grey_pictures(tmp_path: Path) -> None:
    X = np.arange(18.0).reshape(3, 6)
    names = [f"pixel_{row}_{column}" for row in range(2) for column in range(3)]
    dataset = Dataset.from_arrays(X, ["a", "b", "a"], names, image_shape=(2, 3))
    assert dataset.digest == EARLIER_DIGEST
    folder = save_dataset(dataset, tmp_path)
    assert json.loads((folder / "dataset.json").read_text())["image_shape"] == [2, 3]
    assert load_dataset(folder).image_shape == (2, 3)


def test_proposals(table: Table) -> None:
    assert propose_label(table) == "species"
    assert propose_row_id(table) == "sample_id"
    plain = read_table(b"a,b\n0.5,1\n1.5,2\n2.5,2\n")
    assert propose_label(plain) is None
    assert propose_row_id(plain) is None


def test_retyping(table: Table) -> None:
    changed = table.with_types({"cells": "category", "tissue": "text"})
    assert changed.dataset(label="species").feature_names == ("mass", "alive")
    assert changed.column("cells").reason == "Set by you."
    assert table.column("cells").reason != "Set by you."
    with pytest.raises(DataError, match="cannot be numeric"):
        table.with_types({"tissue": "numeric"})
    with pytest.raises(DataError, match="cannot be count"):
        table.with_types({"mass": "count"})
    with pytest.raises(DataError, match="cannot be binary"):
        table.with_types({"tissue": "binary"})
    with pytest.raises(DataError, match="no column type 'colour'"):
        table.with_types({"tissue": "colour"})


def test_the_digest_is_that_of_all_cells_however_they_lie_in_memory() -> None:
    X = np.random.default_rng(0).normal(size=(9001, 3))
    X[4100, 1], X[8999, 0] = np.nan, -0.0
    other = X.copy()
    other[8999, 0] = 0.0
    assert Dataset.from_arrays(np.asfortranarray(other)).digest == Dataset.from_arrays(X).digest
    for row in (0, 4095, 4096, 9000):
        changed = X.copy()
        changed[row, 2] += 1e-12
        assert Dataset.from_arrays(changed).digest != Dataset.from_arrays(X).digest
