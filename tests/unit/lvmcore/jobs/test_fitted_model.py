"""A model of gpytorch as a run of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lvmcore
from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.python_snippet import snippet
from tests.unit.lvmcore.models.gpytorch.trained import approximate, gplvm, rows, table


def rbf() -> Any:
    K = gpytorch_kernels()
    return K.ScaleKernel(K.RBFKernel(ard_num_dims=2))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def map_of_gpytorch() -> tuple[Any, pd.DataFrame]:
    Y = pd.DataFrame(table().numpy(), columns=list("abcd"))
    model, likelihood = gplvm()
    return lvmcore.from_gpytorch(model, likelihood, X=Y), Y


def test_a_map_is_a_run_with_its_embedding_and_metrics(store: Store) -> None:
    model, Y = map_of_gpytorch()
    run = lvmcore.add_fitted(model, Y.assign(colour="red"), name="mine", store=store)
    job = store.get(run)
    assert (job.status, job.stage, job.name, job.spec.origin) == (
        "done",
        "finished",
        "mine",
        "gpytorch",
    )
    assert any("was not fitted here" in note for note in job.notes)
    assert job.metrics
    assert not job.still_rising
    loaded = store.load_model(run)
    points = model.embedding_.mean[:5]
    assert_allclose(loaded.decode(points).mean, model.decode(points).mean)
    embedding = pd.read_parquet(store.job_folder(run).files.embedding)
    assert_allclose(embedding[["z1", "z2"]], model.embedding_.mean)
    assert "colour" in store.datasets.get(job.spec.dataset).frame
    with pytest.raises(UnsupportedError, match="fitted with gpytorch"):
        snippet(job)


def test_it_is_not_taken_for_a_fit_with_the_same_settings(store: Store) -> None:
    model, Y = map_of_gpytorch()
    run = lvmcore.add_fitted(model, Y, store=store)
    spec = store.get(run).spec
    here = JobSpec(spec.dataset, spec.dataset_name, spec.model, spec.parameters)
    assert store.find(here) is None
    assert JobSpec.from_json(spec.to_json()) == spec


@pytest.mark.slow(quick=["False"])
@pytest.mark.parametrize("held_out", [False, True])
def test_a_regressor_is_a_run_with_its_predictions(store: Store, held_out: bool) -> None:
    X, y = rows()
    frame = pd.DataFrame(X.numpy(), columns=["a", "b"]).assign(y=y.numpy())
    fitted = frame[: len(frame) - 10] if held_out else frame
    model, likelihood = approximate(rbf())
    found: Any = lvmcore.from_gpytorch(
        model, likelihood, X=fitted[["a", "b"]], y=fitted["y"].to_numpy()
    )
    data: Any = frame
    if held_out:
        whole = Dataset.from_arrays(frame[["a", "b"]], feature_names=["a", "b"])
        mask = np.arange(len(frame)) >= len(fitted)
        data = Dataset(**{**_parts(whole), "frame": frame, "held_out": mask})
    run = lvmcore.add_fitted(found, data, target="y", store=store)
    job, files = store.get(run), store.job_folder(run).files
    assert job.stage == "finished"
    predictions = pd.read_parquet(files.predictions)
    mean, sd = found.predict(frame[["a", "b"]], return_std=True)
    assert_allclose(predictions["mean"], mean)
    assert_allclose(predictions["sd"], sd)
    protocol = job.metrics["rmse"].protocol
    assert ("may have been fitted" in protocol) != held_out
    assert files.comparison.is_file() == held_out  # baselines have not seen these rows
    loaded = store.load_model(run, "target")
    assert_allclose(loaded.predict(frame[["a", "b"]]), mean)


def _parts(dataset: Dataset) -> dict[str, Any]:
    names = ("X", "feature_names", "row_ids", "rows", "name")
    return {name: getattr(dataset, name) for name in names}


def test_what_does_not_fit_is_told_and_leaves_no_run(store: Store) -> None:
    model, Y = map_of_gpytorch()
    with pytest.raises(DataError, match="no column 'd'"):
        lvmcore.add_fitted(model, Y.drop(columns="d"), store=store)
    with pytest.raises(DataError, match="The map has 30 rows, and 29 rows"):
        lvmcore.add_fitted(model, Y[:29], store=store)
    with pytest.raises(ConfigError, match="a map, which has no target"):
        lvmcore.add_fitted(model, Y, target="a", store=store)
    X, y = rows()
    arc = gpytorch_kernels().ArcKernel(gpytorch_kernels().MaternKernel(), ard_num_dims=2)
    theirs, likelihood = approximate(arc)
    other = lvmcore.from_gpytorch(theirs, likelihood, X=X, y=y)
    frame = pd.DataFrame(X.numpy(), columns=["x1", "x2"]).assign(y=y.numpy())
    with pytest.raises(UnsupportedError, match="ArcKernel of gpytorch cannot be stored"):
        lvmcore.add_fitted(other, frame, target="y", store=store)
    assert not store.list(None)
