"""Tables with missing cells: fitted, shown, and runs from before models took them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.analysis.map.reconstruction import MapPoint
from app.services import caching, fitted_maps, server
from lvmcore.data import Dataset
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.persistence import write_atomically
from tests.app.conftest import OpenPage, fitted_run

N_ROWS = 60


@pytest.fixture
def holed(home: Path) -> Dataset:
    """Rows of which three lack a cell and one lacks all, some of them held out of the fit."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(N_ROWS, 5))
    X[[1, 30, 59], 2], X[7] = np.nan, np.nan
    return Dataset.from_arrays(X, ["a", "b"] * 30, name="holed cells")


def test_rows_that_lack_cells_are_on_the_map_and_can_be_looked_at(
    holed: Dataset, open_page: OpenPage
) -> None:
    run = fitted_run(holed, "ppca", {"n_components": 2})
    assert "1 row left out: every cell is missing." in server.store().get(run).notes
    rows = fitted_maps.fitted_dataset(run)
    assert len(rows) == N_ROWS - 1
    page = open_page("latent", run=run)
    mean = fitted_maps.model(run).embedding_.mean
    assert len(mean) == N_ROWS - 1
    page.session_state["latent.point"] = {run: MapPoint(tuple(mean[1].tolist()), 1)}
    page.run()
    assert not page.exception
    assert any("Row 2" in str(text.value) for text in page.main.markdown)


@pytest.mark.slow
def test_a_run_from_before_its_model_took_missing_cells_keeps_its_rows(holed: Dataset) -> None:
    run = fitted_run(holed, "ppca", {"n_components": 1})
    path = server.store().job_folder(run).path / "embedding.parquet"
    complete = holed.complete_rows().row_ids.tolist()
    frame = pd.read_parquet(path)
    write_atomically(path, to_parquet_bytes(frame[frame["row_id"].isin(complete)]))
    caching.clear()
    assert fitted_maps.fitted_dataset(run).row_ids.tolist() == complete


def test_held_out_rows_measure_the_intervals(holed: Dataset) -> None:
    rows = np.zeros(N_ROWS, dtype=np.bool_)
    rows[::4] = True
    run = fitted_run(replace(holed, held_out=rows), "ppca", {"n_components": 2})
    metrics = server.store().get(run).metrics
    assert 0.6 < metrics["cells_coverage_90"].value <= 1.0
    assert "hidden and predicted from its other cells" in metrics["cells_coverage_90"].protocol
