"""AnnData files on the command line: in, and out with the map."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from lvmcore import cli
from lvmcore.models import load
from tests.unit.lvmcore.data.readers.anndata_files import GENES, by_anndata

FIT = ["--model", "ppca", "--set", "n_components=2", "--seed", "5"]


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    path = tmp_path / "cells.h5ad"
    path.write_bytes(by_anndata("layers"))
    return path


def test_a_file_is_fitted_and_its_map_written(
    cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "run", tmp_path / "map.h5ad"
    options = ["--sheet", "layers/counts", "--out", str(folder), "--embedding", str(out)]
    assert cli.main(["fit", str(cells), *FIT, *options]) == 0
    said = capsys.readouterr().out
    assert "cells: 12 rows, 6 columns, label cell_type with 3 classes" in said
    assert f"Map kept in {out}" in said
    model = load(folder / "model.safetensors")
    assert list(model.feature_names_in_) == GENES
    with h5py.File(out) as file:
        np.testing.assert_array_equal(file["obsm/X_ppca"][:], model.embedding_.mean)
        assert file["uns/latentboard/random_state"][()] == 5
        assert len(file["uns/latentboard/dataset"][()]) == 64


@pytest.mark.slow
def test_new_rows_are_placed_into_a_file(cells: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "new.h5ad"
    assert cli.main(["fit", str(cells), *FIT, "--out", str(folder)]) == 0
    assert cli.main(["transform", str(folder), str(cells), "--out", str(out)]) == 0
    fitted = pd.read_parquet(folder / "embedding.parquet")
    with h5py.File(out) as file:
        np.testing.assert_allclose(file["obsm/X_ppca"][:], fitted[["z1", "z2"]], atol=1e-9)
        assert file["obs/_index"].asstr()[:].tolist() == fitted["row_id"].tolist()
        assert np.all(np.isfinite(file["obs/surprise"][:]))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_map_of_a_fit_is_written_as_a_table_too(ending: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / f"map{ending}"
    command = ["fit", "sample:iris", *FIT, "--out", str(folder), "--embedding", str(out)]
    assert cli.main(command) == 0
    found = pd.read_csv(out) if ending == ".csv" else pd.read_parquet(out)
    kept = pd.read_parquet(folder / "embedding.parquet")
    assert list(found) == list(kept)
    np.testing.assert_array_equal(found[["z1", "z2"]], kept[["z1", "z2"]])


def test_an_ending_that_is_not_known_is_refused_before_the_fit(
    cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    command = ["fit", str(cells), *FIT, "--out", str(folder), "--embedding", "map.xlsx"]
    assert cli.main(command) == 2
    assert "--embedding map.xlsx has an unknown suffix" in capsys.readouterr().err
    assert not folder.exists()


def test_a_filled_table_is_no_map(
    cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["impute", "model.safetensors", str(cells), "--out", str(tmp_path / "full.h5ad")]
    assert cli.main(command) == 2
    assert "expected .csv or .parquet." in capsys.readouterr().err
