"""Scores of runs in the picture, and the scoring of maps that used the labels."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

from app.services import fitted_maps, scores, server
from lvmcore.data import Dataset
from lvmcore.runs import Job
from tests.app.conftest import fitted_run


@pytest.fixture(autouse=True)
def queue_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home of this test's own, without a launcher: runs stay in the queue."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "scores"))
    monkeypatch.setattr(server, "launcher", lambda: None)


def rows(*, hold_out: bool = False) -> Dataset:
    rng = np.random.default_rng(5)
    codes = np.arange(80) % 4
    X = 3 * np.eye(4, 6)[codes] + rng.normal(size=(80, 6))
    found = Dataset.from_arrays(X, np.array(list("abcd"))[codes], name="eighty")
    if not hold_out:
        return found
    held = np.arange(80) % 5 == 0
    return dataclasses.replace(found, held_out=held)


def run(key: str, dataset: Dataset | None = None, **settings: object) -> Job:
    return server.store().get(fitted_run(dataset or rows(), key, settings))


def older(job: Job) -> Job:
    """The run as an earlier version has stored it: without the dimensions of a metric."""
    path = server.store().job_folder(job.id).files.metrics
    stored = json.loads(path.read_text())
    kept = {
        key: {name: value for name, value in metric.items() if name != "dimensions"}
        for key, metric in stored.items()
        if not key.startswith("shown_") and key != "retained_neighbours"
    }
    path.write_text(json.dumps(kept))
    return server.store().get(job.id)


# ---- the picture -----------------------------------------------------------------------------


def test_metrics_follow_the_axes_of_the_picture() -> None:
    job = run("pca", n_components=4)
    model = fitted_maps.model(job.id)
    data = (rows().X - rows().X.mean(axis=0)) / rows().X.std(axis=0)
    for axes in ((0, 1), (3, 1)):
        points = model.embedding_.mean[:, list(axes)]
        found = {one.name: one for one in scores.score_values(job, axes)}
        name = f"dimensions {axes[0] + 1} and {axes[1] + 1}"
        expected = trustworthiness(data, points, n_neighbors=5)
        assert found[f"trustworthiness, {name}"].value == pytest.approx(expected)
        assert len([one for one in found if one.startswith("trustworthiness")]) == 2
        near = [
            NearestNeighbors(n_neighbors=10).fit(one).kneighbors(return_distance=False)
            for one in (model.embedding_.mean, points)
        ]
        shares = [len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)]
        retained = scores.retained_neighbours(job.id, axes)
        assert retained is not None
        assert retained.value == pytest.approx(np.mean(shares))
        assert retained.dimensions == name


def test_a_map_of_two_dimensions_retains_all() -> None:
    job = run("pca", n_components=2)
    assert scores.retained_neighbours(job.id, (0, 1)) is None
    assert scores.map_scores(job, complete=True).overall == {}


def test_a_run_of_an_earlier_version_is_for_all_dimensions_and_says_so() -> None:
    job = run("pca", n_components=4)
    new = scores.map_scores(job)
    old = older(job)
    assert {one.name for one in scores.score_values(old)} == {
        *("trustworthiness, all dimensions", "continuity, all dimensions"),
        *("1-NN accuracy, all dimensions", "silhouette, all dimensions"),
    }
    stored = scores.map_scores(old)
    assert stored.overall == {}
    assert stored.metrics["continuity"].name == "continuity, all dimensions"
    complete = scores.map_scores(old, complete=True)
    for key in ("trustworthiness", "continuity", "knn_accuracy", "silhouette"):
        assert complete.metrics[key] == new.metrics[key]
        assert complete.overall[key].value == new.overall[key].value
        assert complete.metrics[key].dimensions == "dimensions 1 and 2"
        assert complete.overall[key].dimensions == "all dimensions"


# ---- labels that the fit has not seen --------------------------------------------------------


def queued() -> list[str]:
    return [job.id for job in server.store().list("score")]


def test_a_map_that_used_the_labels_is_scored_once() -> None:
    job = run("lda")
    assert scores.map_scores(job).metrics["knn_accuracy"].value is None
    scores.start_label_score(job)
    (score,) = queued()
    assert server.store().get(score).spec.model == "lda"
    scores.start_label_score(job)
    assert queued() == [score]
    server.store().cancel(score)
    scores.start_label_score(job)  # the button remains
    assert queued() == [score]
    assert scores.map_scores(job).unscored


def test_held_out_rows_of_the_dataset_need_no_second_fit() -> None:
    job = run("lda", rows(hold_out=True), n_components=3)
    scores.start_label_score(job)
    assert queued() == []
    found = scores.map_scores(job)
    assert not found.unscored
    assert found.refitted == frozenset()
    for key in ("knn_accuracy", "silhouette"):
        assert found.metrics[key] == job.metrics[f"shown_held_out_{key}"]
        assert found.overall[key] == job.metrics[f"held_out_{key}"]
        assert "16 of the 16 rows held out of the fit" in found.metrics[key].protocol


@pytest.mark.parametrize("key", ["pca", "ppca"])
def test_a_map_without_labels_needs_no_score(key: str) -> None:
    scores.start_label_score(run(key))
    assert queued() == []


def test_after_a_long_fit_the_score_needs_a_click(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "LONGEST_FIT", 0.0)
    job = run("lda")
    scores.start_label_score(job)
    assert queued() == []
    assert "The button starts it" in scores.map_scores(job).metrics["knn_accuracy"].protocol


def test_scores_wait_for_the_fits_submitted_after_them() -> None:
    job = run("lda")
    scores.start_label_score(job)
    (score,) = queued()
    fit = server.store().submit(dataclasses.replace(job.spec, model="pca"))
    assert server.store().queue.ids() == [fit, score]
    assert server.store().get(score).queue_place == 2
