"""Runs that score a model on rows which it has not seen, and finding what was computed before."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import NearestNeighbors

from lvmcore import LDGD, LinearDiscriminantAnalysis, ProbabilisticPCA
from lvmcore.data import Dataset
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.evaluation.scoring import score_on_new_rows, scoring_split
from lvmcore.jobs import run_job
from lvmcore.jobs.launcher import Launcher
from lvmcore.models import MODELS
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job_folder import JobFolder, JobState
from tests.unit.lvmcore.jobs.waiting import finished, until

Score = Callable[..., JobState]


@pytest.fixture
def scored(tmp_path: Path) -> Score:
    """Scores a model on a dataset in ``tmp_path / "score"``."""

    def do(
        dataset: Dataset, model: str, should_stop: Any = lambda: None, **settings: Any
    ) -> JobState:
        spec = JobSpec(dataset.digest, dataset.name, model, settings, kind="score")
        with JobFolder.create(tmp_path / "score", spec, queued=False) as folder:
            return run_job.run_job(folder, lambda: dataset, should_stop)

    return do


def frame(dataset: Dataset) -> pd.DataFrame:
    return pd.DataFrame(dataset.X, columns=list(dataset.feature_names))


def test_a_fifth_of_each_class_is_held_out(toy: Dataset) -> None:
    labels = toy.labels.tolist()
    labels[:10] = [None] * 10
    some = Dataset.from_arrays(toy.X, labels)
    kept, held = scoring_split(some, LDGD)
    counts = [held.labels.tolist().count(name) for name in (None, "a", "b", "c")]
    assert counts == [2, 2, 4, 4]
    assert sorted([*kept.row_ids, *held.row_ids]) == sorted(some.row_ids)
    again, _ = scoring_split(some, LDGD)
    assert again.row_ids.tolist() == kept.row_ids.tolist()


def test_without_labels_a_fifth_of_all_rows_is_held_out(toy: Dataset) -> None:
    kept, held = scoring_split(Dataset.from_arrays(toy.X), ProbabilisticPCA)
    assert (len(kept), len(held)) == (48, 12)


def test_too_few_rows_are_said_to_be_too_few(toy: Dataset) -> None:
    with pytest.raises(DataError, match="2 rows are too few to hold out a fifth"):
        scoring_split(Dataset.from_arrays(toy.X[:2]), ProbabilisticPCA)


@pytest.mark.parametrize("key", ["pca", "tsne", "umap", "isomap"])
def test_a_model_that_held_out_rows_tell_nothing_about_is_refused(key: str, toy: Dataset) -> None:
    with pytest.raises(UnsupportedError, match="cannot be scored on held-out rows"):
        scoring_split(toy, MODELS[key])


def test_the_figures_written_out(toy: Dataset) -> None:
    kept, held = scoring_split(toy, LinearDiscriminantAnalysis)
    model = LinearDiscriminantAnalysis().fit(frame(kept), kept.labels)
    found = score_on_new_rows(model, kept, held)
    places = NearestNeighbors(n_neighbors=1).fit(model.transform(frame(kept)))
    nearest = places.kneighbors(model.transform(frame(held)), return_distance=False)[:, 0]
    assert found["held_out_knn_accuracy"].value == np.mean(kept.labels[nearest] == held.labels)
    assert found["held_out_accuracy"].value == model.score(frame(held), held.labels.astype(str))
    assert "12" in found["held_out_knn_accuracy"].protocol
    assert "fitted anew to 48 rows" in found["held_out_silhouette"].protocol
    assert "held_out_nlpd" not in found


def test_labels_that_say_nothing_score_no_better_than_chance(rng: np.random.Generator) -> None:
    """A map shaped by random labels parts its own rows; those held out it does not."""
    X = rng.standard_normal((200, 60))
    data = Dataset.from_arrays(X, rng.choice(["a", "b"], 200))
    kept, held = scoring_split(data, LinearDiscriminantAnalysis)
    model = LinearDiscriminantAnalysis().fit(frame(kept), kept.labels)
    assert model.score(frame(kept), kept.labels.astype(str)) > 0.75
    found = score_on_new_rows(model, kept, held)
    assert found["held_out_knn_accuracy"].value < 0.7
    assert found["held_out_accuracy"].value < 0.7


def test_a_score_leaves_figures_and_no_model(scored: Score, toy: Dataset, tmp_path: Path) -> None:
    state = scored(toy, "ldgd", n_components=2, n_inducing=10, max_iter=30)
    assert (state.status, state.stage) == ("done", "finished")
    folder = JobFolder(tmp_path / "score")
    metrics = folder.metrics()
    assert set(metrics) == {
        "held_out_knn_accuracy",
        "held_out_silhouette",
        "held_out_accuracy",
        "held_out_nlpd",
        "held_out_ece",
        "held_out_rmse",
        "cells_coverage_50",
        "cells_coverage_90",
        "cells_coverage_95",
        "cells_nlpd",
    }
    assert metrics["held_out_knn_accuracy"].value > 0.8
    assert not folder.files.model.exists()
    assert not folder.files.embedding.exists()


def test_a_label_free_density_is_scored(scored: Score, toy: Dataset, tmp_path: Path) -> None:
    assert scored(toy, "factor_analysis").status == "done"
    found = JobFolder(tmp_path / "score").metrics()
    kept, held = scoring_split(toy, MODELS["factor_analysis"])
    model = MODELS["factor_analysis"]().fit(kept.X)
    assert found["held_out_nlpd"].value == pytest.approx(-model.score(held.X))


def test_a_score_that_is_stopped_has_no_figures(
    scored: Score, toy: Dataset, tmp_path: Path
) -> None:
    asked: list[int] = []

    def should_stop() -> str | None:
        asked.append(1)
        return "cancelled" if len(asked) > 3 else None

    state = scored(toy, "ldgd", should_stop, n_components=2, n_inducing=10, max_iter=300)
    assert state.status == "cancelled"
    assert JobFolder(tmp_path / "score").metrics() == {}


def test_the_history_is_that_of_fits(store: Store, toy: Dataset) -> None:
    digest = store.datasets.put(toy)
    fit = store.submit(JobSpec(digest, "toy", "ppca"))
    score = store.submit(JobSpec(digest, "toy", "ppca", kind="score"))
    assert [job.id for job in store.list()] == [fit]
    assert [job.id for job in store.list("score")] == [score]
    assert {job.id for job in store.list(None)} == {fit, score}
    assert store.queue.ids() == [fit, score]
    later = store.submit(JobSpec(digest, "toy", "ppca", {"n_components": 1}))
    assert store.queue.ids() == [fit, later, score]  # a score does not delay a fit


def test_what_was_asked_before_is_found(store: Store, toy: Dataset) -> None:
    digest = store.datasets.put(toy)
    spec = JobSpec(digest, "toy", "tsne", {"perplexity": 9.0})
    assert store.find(spec) is None
    name = store.submit(spec)
    # Settings that are left at their defaults are the same as those that are named.
    same = JobSpec(digest, "toy", "tsne", {"perplexity": 9.0, "max_iter": 750}, name="other")
    for wanted in (spec, same):
        found = store.find(wanted)
        assert found is not None
        assert found.id == name
    others = [
        dataclasses.replace(spec, kind="score"),
        dataclasses.replace(spec, model="umap", parameters={}),
        dataclasses.replace(spec, parameters={"perplexity": 8.0}),
        dataclasses.replace(spec, dataset="0" * 64),
        dataclasses.replace(spec, parameters={"perplexity": 9.0, "random_state": None}),
    ]
    assert [store.find(other) for other in others] == [None] * len(others)
    store.cancel(name)
    assert store.find(spec) is None
    assert store.find(spec, failed=True) is None
    stopped = store.find(spec, stopped=True)
    assert stopped is not None
    assert stopped.id == name


def test_a_seed_drawn_anew_is_another_fit(store: Store, toy: Dataset) -> None:
    spec = JobSpec(store.datasets.put(toy), "toy", "tsne", {"random_state": None})
    store.submit(spec)
    assert store.find(spec) is None


@pytest.mark.slow
def test_one_that_is_done_is_found_before_one_that_waits(
    store: Store, toy: Dataset, launch: Callable[..., Launcher]
) -> None:
    spec = JobSpec(store.datasets.put(toy), "toy", "pca")
    done = store.submit(spec)
    launch().ensure_running()
    finished(store, done)
    with store.own(spec):
        found = store.find(spec)
        assert found is not None
        assert found.id == done


@pytest.mark.slow
def test_a_library_that_tells_no_steps_is_stopped_by_force(
    store: Store, big: Dataset, launch: Callable[..., Launcher]
) -> None:
    launch()
    name = store.submit(JobSpec(store.datasets.put(big), "big", "umap", {"n_epochs": 100_000}))
    until(lambda: store.get(name).stage == "fitting", "the fit's begin")
    store.cancel(name)
    until(lambda: store.get(name).finished, "the run's end")
    job = store.get(name)
    assert (job.status, job.has_model) == ("cancelled", False)
    assert "by force" in (job.message or "")
