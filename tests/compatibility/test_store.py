"""A store that version 0.1.0 wrote."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Store
from tests.compatibility.earlier import facts_of


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Store:
    """A copy of the store, for a test to write to."""
    return Store(shutil.copytree(written / "store", tmp_path / "store"))


@pytest.fixture
def facts(written: Path) -> dict[str, Any]:
    return facts_of(written)


def test_its_runs_are_listed_as_they_were(store: Store, facts: dict[str, Any]) -> None:
    fits = {run for run, was in facts["runs"].items() if was["kind"] == "fit"}
    assert {job.id for job in store.list()} == fits
    for run, was in facts["runs"].items():
        job = store.get(run)
        assert (job.status, job.name) == (was["status"], was["name"])
        assert (job.spec.kind, job.spec.model) == (was["kind"], was["model"])
        assert sorted(job.metrics) == was["metrics"]
        assert len(list(store.events(run))) == was["events"]


def test_its_scores_of_positions_name_their_dimensions(store: Store, facts: dict[str, Any]) -> None:
    positions = {"trustworthiness", "continuity", "knn_accuracy", "silhouette"}
    named = [
        metric.dimensions
        for run in facts["runs"]
        for key, metric in store.get(run).metrics.items()
        if key.partition(": ")[0] in positions
    ]
    assert named
    assert all("dimension" in one for one in named)


def test_its_datasets_and_models_open(store: Store, facts: dict[str, Any]) -> None:
    for run, was in facts["runs"].items():
        job = store.get(run)
        assert len(store.datasets.get(job.spec.dataset).X)
        if was["kind"] == "fit" and was["status"] == "done":
            model = store.load_model(run, "target" if job.spec.target else "map")
            assert type(model).key == was["model"]


def test_its_selections_and_notes_are_kept(store: Store, facts: dict[str, Any]) -> None:
    run = facts["ids"]["LDGD of birds"]
    assert store.get(run).note == "a note"
    (kept,) = store.selections.list(run)
    assert kept.name == "the odd ones"
    assert kept.content == {"column": "width", "test": "at least", "value": 0.5}


def test_a_stopped_run_is_resumed_from_its_checkpoint(store: Store, facts: dict[str, Any]) -> None:
    run = facts["ids"]["cancelled"]
    before = list(store.events(run))[-1].step.iteration
    store.resume(run)
    folder = store.job_folder(run)
    run_job(folder, lambda: store.datasets.get(store.get(run).spec.dataset), lambda: None)
    job = store.get(run)
    assert job.status == "done"
    steps = [event.step.iteration for event in store.events(run)]
    assert steps[-1] > before
    assert not any("anew" in note or "beginning" in note for note in job.notes)
