"""A map as an AnnData file: what is in it, and that it is written as anndata writes it."""

import io
import json
import math
import sys
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from lvmcore import PCA, ProbabilisticPCA
from lvmcore.data import Dataset, Table, read_table
from lvmcore.errors import UnsupportedError
from lvmcore.export.anndata import embedding_to_h5ad, places_to_h5ad
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.runs import JobSpec
from tests.unit.lvmcore.data.readers.anndata_files import by_anndata


def opened(content: bytes) -> Any:
    return h5py.File(io.BytesIO(content))


def strings(dataset: Any) -> list[str]:
    return [str(value) for value in dataset.asstr()[:]]


def marks(group: Any) -> dict[str, tuple[str, str]]:
    """How every element of a file says that it is encoded."""
    found = {"": (group.attrs["encoding-type"], group.attrs["encoding-version"])}
    group.visititems(
        lambda name, element: found.update(
            {name: (element.attrs["encoding-type"], element.attrs["encoding-version"])}
            if "encoding-type" in element.attrs
            else {}
        )
    )
    return found


@pytest.fixture
def cells() -> Dataset:
    """The rows of a file that anndata wrote."""
    table = read_table(by_anndata("layers"), name="cells")
    return table.dataset(label="cell_type", row_id="barcode")


def test_the_map_its_sds_and_where_it_is_from(cells: Dataset) -> None:
    model = ProbabilisticPCA(n_components=2, random_state=3).fit(cells.X)
    spec = JobSpec("ab" * 32, "cells", "ppca", {}, versions={"latentboard": "9.8"})
    with opened(embedding_to_h5ad(model, cells, spec)) as file:
        np.testing.assert_array_equal(file["obsm/X_ppca"][:], model.embedding_.mean)
        sd = np.sqrt(model.embedding_.variance)
        np.testing.assert_array_equal(file["obsm/X_ppca_sd"][:], sd)
        np.testing.assert_array_equal(file["X"][:], cells.X)
        assert strings(file["obs/_index"]) == cells.row_ids.tolist()
        assert strings(file["var/_index"]) == list(cells.feature_names)
        facts = {name: element[()] for name, element in file["uns/latentboard"].items()}
    assert facts.pop("random_state") == 3
    parameters = json.loads(facts.pop("parameters"))
    assert parameters["n_components"] == 2
    assert {name: fact.decode() for name, fact in facts.items()} == {
        "model": "ppca",
        "title": "Probabilistic PCA",
        "version": "9.8",
        "dataset": "ab" * 32,
        "dataset_name": "cells",
    }


def test_every_element_is_marked_as_anndata_marks_it(cells: Dataset) -> None:
    """Beside a file of anndata with the same columns: an element means the same in both."""
    model = ProbabilisticPCA(n_components=2).fit(cells.X)
    with opened(embedding_to_h5ad(model, cells)) as ours, opened(by_anndata("layers")) as theirs:
        mine, known = marks(ours), marks(theirs)
        # Theirs are sparse, whole numbers with a gap, and classes called by numbers.
        shared = (mine.keys() & known.keys()) - {"X", "obs/batch", "obs/leiden/categories"}
        assert {"", "obs", "obs/cell_type", "obs/doublet", "obs/n_genes", "uns"} <= shared
        assert {name: mine[name] for name in shared} == {name: known[name] for name in shared}
        assert mine["X"] == mine["obsm/X_ppca"] == known["obsm/X_pca"]
        assert mine["uns/latentboard/model"] == known["uns/title"]
        everything: list[str] = []
        ours.visit(everything.append)
        assert set(everything) | {""} == mine.keys()
        theirs_order = theirs["obs"].attrs["column-order"].tolist()
        assert sorted(ours["obs"].attrs["column-order"].tolist()) == sorted(theirs_order)
        for name in ("cell_type", "donor"):
            codes, levels = ours[f"obs/{name}/codes"][:], strings(ours[f"obs/{name}/categories"])
            np.testing.assert_array_equal(codes, theirs[f"obs/{name}/codes"][:])
            assert levels == strings(theirs[f"obs/{name}/categories"])


def test_it_is_read_back_as_the_table_that_it_was(cells: Dataset) -> None:
    model = ProbabilisticPCA(n_components=2).fit(cells.X)
    table = read_table(embedding_to_h5ad(model, cells), name="again")
    again = table.dataset(label="cell_type", row_id="obs_names")
    np.testing.assert_array_equal(again.X, cells.X)
    assert again.feature_names == cells.feature_names
    assert again.row_ids.tolist() == cells.row_ids.tolist()
    assert again.labels is not None
    assert cells.labels is not None
    assert again.labels.tolist() == cells.labels.tolist()
    for name in ("n_counts", "doublet", "leiden"):
        assert table.frame[name].tolist() == cells.frame[name].tolist()


def test_a_model_without_uncertainty_has_no_sds_and_a_logarithm_is_undone(cells: Dataset) -> None:
    table = read_table(by_anndata("layers"))
    logged = table.dataset(row_id="barcode", log1p=["LYZ"])
    model = PCA(n_components=2).fit(logged.X)
    with opened(embedding_to_h5ad(model, logged)) as file:
        assert list(file["obsm"]) == ["X_pca"]
        assert file["var/log1p"][:].tolist() == [name == "LYZ" for name in logged.feature_names]
        np.testing.assert_array_equal(file["X"][:], cells.X)  # in the table's own units
    assert not np.array_equal(logged.X, cells.X)


def test_rows_that_were_not_placed_are_not_there(cells: Dataset) -> None:
    model = ProbabilisticPCA(n_components=2).fit(cells.X)
    frame = (
        embedding_frame(model, cells).iloc[[7, 2]].assign(predicted=["T", "B"], unusual=[0.1, 1])
    )
    with opened(places_to_h5ad(frame, model, cells)) as file:
        assert strings(file["obs/_index"]) == ["cell-7", "cell-2"]
        np.testing.assert_array_equal(file["X"][:], cells.X[[7, 2]])
        np.testing.assert_array_equal(file["obsm/X_ppca"][:], model.embedding_.mean[[7, 2]])
        assert file["obs/unusual"][:].tolist() == [0.1, 1.0]
        assert strings(file["obs/predicted"]) == ["T", "B"]
        np.testing.assert_array_equal(file["obs/n_counts"][:], cells.frame["n_counts"].iloc[[7, 2]])


def odd(rng: np.random.Generator) -> Table:
    n = 8
    return Table.from_frame(
        pd.DataFrame(
            {
                "x": rng.standard_normal(n),
                "y": rng.standard_normal(n),
                "a/b": ["u", "v"] * 4,
                "a": list("abcdefgh"),
                "_index": np.arange(n) * 2.0,
                "whole": pd.array([1, None] * 4, dtype="Int64"),
                "truth": pd.array([True, None] * 4, dtype="boolean"),
                "when": pd.to_datetime(["2020-01-01", None] * 4),
                "nul": ["one\0two", "three"] * 4,
                "none": [math.nan] * n,
                "µ ±": ["名前", "=1+1"] * 4,
            }
        )
    )


def test_odd_names_and_cells_find_a_place(rng: np.random.Generator) -> None:
    dataset = odd(rng).dataset(features=["x", "y"])
    model = PCA(n_components=1).fit(dataset.X)
    back = read_table(embedding_to_h5ad(model, dataset)).frame
    expected = ["a_b", "a", "index", "whole", "truth", "when", "nul", "none", "µ ±"]
    assert list(back.columns) == ["obs_names", "x", "y", *expected]
    assert back["a_b"].tolist() == ["u", "v"] * 4
    assert back["a"].tolist() == list("abcdefgh")
    assert back["whole"].isna().tolist() == back["truth"].isna().tolist() == [False, True] * 4
    assert back["when"].tolist()[0].startswith("2020-01-01")
    assert back["nul"].tolist()[0] == "onetwo"
    assert back["none"].isna().all()
    assert back["µ ±"].tolist()[:2] == ["名前", "=1+1"]


@pytest.mark.slow
def test_more_columns_than_a_list_in_an_old_file_could_name(rng: np.random.Generator) -> None:
    frame = pd.DataFrame(rng.standard_normal((4, 6000))).rename(columns="column {}".format)
    dataset = Table.from_frame(frame).dataset(features=["column 0", "column 1"])
    model = PCA(n_components=1).fit(dataset.X)
    back = read_table(embedding_to_h5ad(model, dataset))
    assert back.frame.shape == (4, 6001)


def test_without_the_package_the_message_says_what_to_do(
    cells: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PCA(n_components=2).fit(cells.X)
    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.setattr("lvmcore.export.anndata.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'latentboard\[formats\]'"):
        embedding_to_h5ad(model, cells)
