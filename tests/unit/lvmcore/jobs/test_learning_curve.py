"""Learning curves: their fits, their scores by another route, a stop, and what is refused."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, f1_score, root_mean_squared_error

from lvmcore import SupervisedPPCA, SVGPRegressor
from lvmcore.data import Dataset, Table
from lvmcore.errors import UnsupportedError
from lvmcore.evaluation.learning_curves import LearningCurve, nested_order
from lvmcore.jobs.learning_curve import learning_curve_of
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.atomic_files import read_json
from lvmcore.runs.job_state import JobState

SIZES = (12, 24, 48)
Run = Callable[..., tuple[str, JobState]]


@pytest.fixture
def numbers(rng: np.random.Generator) -> Dataset:
    """A smooth function of two columns: 80 rows."""
    X = rng.uniform(-1, 1, (80, 2))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.05 * rng.normal(size=80)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    return Table.from_frame(frame, name="numbers").dataset(features=["a", "b"])


@pytest.fixture
def run(store: Store) -> Run:
    """Executes a learning curve in this process, stopped after so many fits if asked to."""

    def do(
        dataset: Dataset, spec: JobSpec, *, name: str | None = None, stop_at: int | None = None
    ) -> tuple[str, JobState]:
        store.datasets.put(dataset)
        name = store.submit(spec) if name is None else name
        folder = store.job_folder(name)

        def should_stop() -> str | None:
            done = folder.files.learning_curve.is_file() and len(
                curve(store, folder.path.name).points
            )
            return "cancelled" if stop_at is not None and done >= stop_at else None

        with folder.lock():
            state = run_job(folder, lambda: dataset, should_stop)  # type: ignore[arg-type]
        return name, state

    return do


def curve(store: Store, name: str) -> LearningCurve:
    return LearningCurve.from_json(read_json(store.job_folder(name).files.learning_curve))


def test_a_map_with_labels_is_scored_on_rows_that_it_has_not_seen(
    store: Store, run: Run, toy: Dataset
) -> None:
    fit = JobSpec(toy.digest, toy.name, "sppca", {"n_components": 2, "random_state": 7})
    spec = learning_curve_of(fit, SIZES, 2)
    assert "random_state" not in spec.parameters
    name, state = run(toy, spec)
    assert state.status == "done", state.message
    found = curve(store, name)
    assert [(point.size, point.repeat) for point in found.points] == [
        (size, repeat) for repeat in range(2) for size in SIZES
    ]
    # The same by hand: a fifth of each class is held out, and the first 24 others are fitted.
    assert toy.labels is not None
    point = found.points[4]
    assert point.size == 24
    scored = held_out(toy, 1)
    left = np.flatnonzero(~scored)
    rows = left[nested_order(toy.labels[left], len(left), 1)][:24]
    X = pd.DataFrame(toy.X, columns=list(toy.transformed_names))
    model = SupervisedPPCA(n_components=2, random_state=1).fit(X.iloc[rows], toy.labels[rows])
    predicted = model.predict(X[scored]).astype(str)
    truth = toy.labels[scored].astype(str)
    assert point.scores["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert point.scores["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    job = store.get(name)
    assert job.metrics["accuracy"].value == pytest.approx(found.values("accuracy")[-1].mean())
    assert "20 % of the rows of each class, drawn with the seed of the repeat" in found.protocol
    assert [event.step.iteration for event in store.events(name)] == list(range(1, 7))
    assert store.find(spec) == job
    assert store.find(dataclasses.replace(spec, repeats=3)) is None


def held_out(toy: Dataset, seed: int) -> np.ndarray:
    from lvmcore.data.held_out_rows import hold_out_rows

    return hold_out_rows(len(toy), toy.labels, 0.2, seed)


def test_a_number_is_scored_by_its_errors_which_fall(
    store: Store, run: Run, numbers: Dataset
) -> None:
    settings = {"kernel": "rbf", "max_iter": 150, "n_inducing": 10}
    fit = JobSpec(numbers.digest, numbers.name, "svgp_regressor", settings, target="y")
    spec = learning_curve_of(fit, (8, 64), 2)
    name, state = run(numbers, spec)
    assert state.status == "done", state.message
    found = curve(store, name)
    assert found.labels == {"rmse": "RMSE", "mae": "MAE"}
    few, many = (values.mean() for values in found.values("rmse"))
    assert many < few
    # The last fit has every row that is not held out, whatever their order.
    from lvmcore.prediction.target_rows import split_for_target

    seeded = dataclasses.replace(spec, parameters={**settings, "random_state": 1})
    rows = split_for_target(numbers, "number", seeded)
    scored = rows.held_out
    order = np.flatnonzero(~scored)[nested_order(None, 64, 1)]
    model = SVGPRegressor(**settings, random_state=1).fit(rows.X.iloc[order], rows.y[order])
    error = root_mean_squared_error(rows.y[scored], model.predict(rows.X[scored]))
    assert found.points[-1].scores["rmse"] == pytest.approx(error)


def test_a_stopped_curve_keeps_its_fits_and_goes_on_after_them(
    store: Store, run: Run, toy: Dataset
) -> None:
    spec = learning_curve_of(JobSpec(toy.digest, toy.name, "sppca", {"n_components": 2}), SIZES, 2)
    name, state = run(toy, spec, stop_at=2)
    assert state.status == "cancelled"
    assert "those done were kept" in (state.message or "")
    before = curve(store, name).points
    assert len(before) == 2
    assert store.get(name).resumable
    store.resume(name)
    name, state = run(toy, spec, name=name)
    assert state.status == "done", state.message
    after = curve(store, name).points
    assert after[: len(before)] == before
    assert len(after) == 6
    whole, _ = run(toy, spec)
    assert [point.scores for point in curve(store, whole).points] == [p.scores for p in after]


def test_rows_that_the_dataset_holds_out_are_scored_in_every_repeat(
    store: Store, run: Run, toy: Dataset
) -> None:
    mask = np.zeros(60, dtype=bool)
    mask[::4] = True
    held = dataclasses.replace(toy, held_out=mask)
    spec = learning_curve_of(
        JobSpec(held.digest, held.name, "sppca", {"n_components": 2}), (10, 45), 2
    )
    name, state = run(held, spec)
    assert state.status == "done", state.message
    found = curve(store, name)
    assert found.protocol == "On the rows that the dataset holds out."
    first, second = found.values("accuracy")[-1]
    assert first == second  # the same 45 rows, in another order
    too_many = learning_curve_of(
        JobSpec(held.digest, held.name, "sppca", {"n_components": 2}), (10, 46), 2
    )
    _, state = run(held, too_many)
    assert state.status == "failed"
    assert "46 rows cannot be fitted: 45 are left" in (state.message or "")


def test_fits_to_one_class_alone_are_left_out_and_named(
    store: Store, run: Run, toy: Dataset
) -> None:
    rare = np.array(["a"] * 57 + ["b"] * 3)
    frame = pd.DataFrame(toy.X, columns=list("pqrst")).assign(kind=rare)
    dataset = Table.from_frame(frame, name="rare").dataset(features=list("pqrst"), label="kind")
    settings = {"max_iter": 5, "n_inducing": 5}
    fit = JobSpec(dataset.digest, dataset.name, "svgp_classifier", settings, target="kind")
    name, state = run(dataset, learning_curve_of(fit, (5, 40), 4))
    assert state.status == "done", state.message
    found = curve(store, name)
    failed = [point for point in found.points if point.error]
    assert failed
    assert {point.size for point in failed} == {5}
    assert [len(values) for values in found.values("accuracy")] == [4 - len(failed), 4]
    assert any(f"{len(failed)} of them were not possible" in note for note in state.notes)


def test_a_map_without_labels_has_no_learning_curve(toy: Dataset) -> None:
    fit = JobSpec(toy.digest, toy.name, "bayesian_gplvm", {})
    with pytest.raises(UnsupportedError, match="predicts no labels of new rows"):
        learning_curve_of(fit, SIZES, 2)
