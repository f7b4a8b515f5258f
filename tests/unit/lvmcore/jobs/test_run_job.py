import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.data import Dataset
from lvmcore.errors import DataError, NumericalError
from lvmcore.evaluation import map_quality
from lvmcore.jobs import run_job
from lvmcore.jobs.fitting import describe_error, training_rows
from lvmcore.models import MODELS
from lvmcore.runs import JobSpec
from lvmcore.runs.job_folder import JobFolder, JobState
from lvmcore.runs.model_of_job import make_model

Run = Callable[..., JobState]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a model on a dataset in ``tmp_path / "run"``."""

    def do(
        dataset: Dataset, model: str = "ppca", should_stop: Any = lambda: None, **parameters: Any
    ) -> JobState:
        spec = JobSpec(dataset.digest, dataset.name, model, parameters)
        with JobFolder.create(tmp_path / "run", spec, queued=False) as folder:
            return run_job.run_job(folder, lambda: dataset, should_stop)

    return do


def test_a_fit_leaves_everything_a_run_leaves(run: Run, toy: Dataset, tmp_path: Path) -> None:
    state = run(toy, n_components=2)
    folder = JobFolder(tmp_path / "run")
    assert state == folder.state()
    assert (state.status, state.stage, state.converged) == ("done", "finished", True)
    assert state.started is not None
    assert state.ended is not None
    assert state.submitted <= state.started <= state.ended
    model = lvmcore.load(folder.files.model)
    assert model.elbo_ == state.elbo
    frame = pd.read_parquet(folder.files.embedding)
    assert frame["row_id"].tolist() == toy.row_ids.tolist()
    np.testing.assert_array_equal(frame[["z1", "z2"]], model.embedding_.mean)
    assert len(folder.files.events.read_text().splitlines()) == 1
    assert folder.spec().dataset == toy.digest
    names = {path.name for path in folder.path.iterdir()}
    assert names == {
        "spec.json",
        "status.json",
        "events.jsonl",
        "model.safetensors",
        "embedding.parquet",
        "metrics.json",
        "lock",
    }


def test_figures_name_their_protocol(run: Run, toy: Dataset, tmp_path: Path) -> None:
    run(toy, n_components=2)
    metrics = JobFolder(tmp_path / "run").metrics()
    assert set(metrics) == {"elbo", "trustworthiness", "continuity", "knn_accuracy", "silhouette"}
    for key in ("trustworthiness", "continuity", "knn_accuracy"):
        value = metrics[key].value
        assert value is not None
        assert 0.8 < value <= 1
        assert "60" in metrics[key].protocol
    assert "did not see the labels" in metrics["knn_accuracy"].protocol


def test_a_label_aware_map_is_not_scored_on_the_labels_it_saw(
    run: Run, toy: Dataset, tmp_path: Path
) -> None:
    assert run(toy, "ldgd", n_components=2, n_inducing=10, max_iter=5).status == "done"
    metrics = JobFolder(tmp_path / "run").metrics()
    assert "trustworthiness" in metrics
    assert not any("label" in metric.protocol for metric in metrics.values())


def test_pca_has_no_bound(run: Run, toy: Dataset, tmp_path: Path) -> None:
    state = run(toy, "pca", n_components=2)
    assert (state.status, state.elbo) == ("done", None)
    stored = json.loads((tmp_path / "run" / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert "elbo" not in stored


def test_a_subsample_is_called_one(toy: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_quality, "MOST_ROWS", 30)
    model = lvmcore.ProbabilisticPCA(n_components=2).fit(toy.X)
    protocol = map_quality.map_metrics(model, toy)["trustworthiness"].protocol
    assert "30 of 60 rows, drawn with seed 0" in protocol


def test_too_few_rows_for_a_figure_are_said_to_be_too_few(rng: np.random.Generator) -> None:
    data = Dataset.from_arrays(rng.standard_normal((8, 3)), ["a", "b"] * 4)
    model = lvmcore.ProbabilisticPCA(n_components=2).fit(data.X)
    found = map_quality.map_metrics(model, data)
    for key in ("trustworthiness", "continuity", "knn_accuracy"):
        assert found[key].value is None
        assert "Needs" in found[key].protocol


def test_figures_that_fail_do_not_undo_the_fit(
    run: Run, toy: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(map_quality, "map_metrics", broken)
    state = run(toy, n_components=2)
    assert state.status == "done"
    assert "could not be measured" in state.notes[-1]
    assert "secret detail" in (tmp_path / "run" / "worker.log").read_text()


def test_rows_with_missing_cells_are_left_out_with_a_note(
    run: Run, toy: Dataset, tmp_path: Path
) -> None:
    X = toy.X.copy()
    X[[3, 7], 1] = np.nan
    holed = Dataset.from_arrays(X, toy.labels, name="holed")
    state = run(holed, "pca", n_components=2)
    assert state.status == "done"
    assert any(note.startswith("2 rows left out") for note in state.notes)
    frame = pd.read_parquet(tmp_path / "run" / "embedding.parquet")
    assert len(frame) == 58
    assert not {"4", "8"} & set(frame["row_id"])


def test_rows_with_missing_cells_are_fitted_where_the_model_takes_them(
    run: Run, toy: Dataset, tmp_path: Path
) -> None:
    X = toy.X.copy()
    X[[3, 7], 1], X[5], X[:, 2] = np.nan, np.nan, np.nan
    state = run(Dataset.from_arrays(X, toy.labels, name="holed"), "ppca", n_components=2)
    assert state.status == "done"
    assert "Column 'x3' left out: every cell is missing." in state.notes
    assert "1 row left out: every cell is missing." in state.notes
    columns = X.shape[1] - 1
    assert (
        f"2 of the {59 * columns} cells are missing, in 2 of 59 rows: the fit goes by the others."
    ) in state.notes
    frame = pd.read_parquet(tmp_path / "run" / "embedding.parquet")
    assert len(frame) == 59
    assert {"4", "8"} <= set(frame["row_id"])
    assert "6" not in set(frame["row_id"])


def test_a_label_aware_model_wants_labels(run: Run, toy: Dataset) -> None:
    state = run(Dataset.from_arrays(toy.X, name="bare"), "ldgd")
    assert (state.status, state.error) == ("failed", "DataError")
    assert state.message is not None
    assert "choose a label column" in state.message


def test_rows_without_a_label_are_left_out_for_a_model_that_needs_every_label(
    toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ldgd = MODELS["ldgd"]
    strict = dataclasses.replace(ldgd.capabilities, missing_labels=False)
    labels = np.array(toy.labels, dtype=object)
    labels[:5] = None
    part = Dataset.from_arrays(toy.X, labels)
    assert len(training_rows(part, ldgd)[0]) == 60
    monkeypatch.setattr(ldgd, "capabilities", strict)
    kept, notes = training_rows(part, ldgd)
    assert len(kept) == 55
    assert notes == ("5 rows left out: no label.",)


def test_too_few_rows_are_refused() -> None:
    X = np.full((3, 2), np.nan)
    X[0] = 1.0
    with pytest.raises(DataError, match="1 of 3 rows"):
        training_rows(Dataset.from_arrays(X), MODELS["ppca"])


@pytest.mark.parametrize(
    ("model", "parameters", "said"),
    [
        ("ppca", {"n_components": 99}, "n_components=99"),
        ("ppca", {"n_components": "two"}, "n_components='two'"),
        ("ppca", {"colour": 1}, "no setting 'colour'"),
        ("tarot", {}, "no model 'tarot'"),
    ],
)
def test_a_setting_that_cannot_be_used_fails_with_its_message(
    run: Run, toy: Dataset, tmp_path: Path, model: str, parameters: dict[str, Any], said: str
) -> None:
    state = run(toy, model, **parameters)
    assert (state.status, state.error, state.stage) == ("failed", "ConfigError", "finished")
    assert state.message is not None
    assert said in state.message
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (NumericalError("The matrix broke."), "NumericalError", "The matrix broke."),
        (MemoryError(), "MemoryError", "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "MemoryError", "not enough"),
        (OSError(28, "No space left on device"), "DiskFull", "disk is full"),
    ],
)
def test_errors_to_be_expected_have_plain_messages(error: Exception, kind: str, said: str) -> None:
    message, found = describe_error(error)
    assert found == kind
    assert said in message


def test_an_unexpected_error_keeps_its_traceback_in_the_log(
    run: Run, toy: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(MODELS["ppca"], "_fit", broken)
    state = run(toy)
    assert (state.status, state.error) == ("failed", "Unexpected")
    written = (tmp_path / "run" / "status.json").read_text()
    assert "secret detail" not in written
    assert "Traceback" not in written
    assert "worker.log" in written
    assert "ZeroDivisionError: secret detail" in (tmp_path / "run" / "worker.log").read_text()


def test_a_dataset_that_is_gone_fails_the_run(tmp_path: Path) -> None:
    def gone() -> Dataset:
        raise DataError("The dataset is gone.")

    spec = JobSpec("0" * 64, "toy", "ppca")
    with JobFolder.create(tmp_path / "run", spec, queued=False) as folder:
        state = run_job.run_job(folder, gone, lambda: None)
    assert (state.status, state.message) == ("failed", "The dataset is gone.")


@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
def test_a_fit_stopped_before_it_began_keeps_nothing(
    run: Run, toy: Dataset, tmp_path: Path, reason: str
) -> None:
    state = run(toy, should_stop=lambda: reason)
    assert state.status == reason
    assert state.message is not None
    assert "before there was anything" in state.message
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
def test_a_fit_stopped_under_way_keeps_what_it_has(
    run: Run, toy: Dataset, tmp_path: Path, reason: str
) -> None:
    asked = iter([None, None, None, *[reason] * 500])
    state = run(
        toy, "bayesian_gplvm", lambda: next(asked), n_components=2, n_inducing=10, max_iter=400
    )
    assert (state.status, state.converged) == (reason, False)
    folder = JobFolder(tmp_path / "run")
    model = lvmcore.load(folder.files.model)
    assert len(model.history_) < 400
    assert np.isfinite(model.transform(pd.DataFrame(toy.X, columns=list(toy.feature_names)))).all()
    assert folder.files.embedding.is_file()
    assert folder.files.metrics.is_file() == (reason == "cancelled")


def test_a_stored_spec_makes_the_same_model(toy: Dataset) -> None:
    spec = JobSpec(toy.digest, "toy", "bayesian_gplvm", {"n_inducing": 12, "random_state": 3})
    one, two = make_model(spec), make_model(JobSpec.from_json(spec.to_json()))
    assert one.get_params() == two.get_params()
    assert (one.get_params()["n_inducing"], one.get_params()["random_state"]) == (12, 3)
