"""PCA, t-SNE and UMAP of the rows of a run: each fitted once, and used again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.services import reference_maps, runs, server
from app.services.reference_maps import reference_runs
from lvmcore.data import Dataset
from lvmcore.runs import Job
from tests.app.conftest import fitted_run


@pytest.fixture(autouse=True)
def queue_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home of this test's own, without a launcher: runs stay in the queue."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "references"))
    monkeypatch.setattr(server, "launcher", lambda: None)


def rows(*, gaps: bool = False) -> Dataset:
    X = np.random.default_rng(8).normal(size=(40, 4))
    if gaps:
        X[:, 0] = np.nan
        X[0, 0] = 1.0
    return Dataset.from_arrays(X, name="forty")


@pytest.fixture
def job() -> Job:
    return server.store().get(fitted_run(rows(), "ppca", {"n_components": 2}))


def models(found: list[str]) -> list[str]:
    return [server.store().get(run).spec.model for run in found]


def end(run: str, status: str, **parts: object) -> None:
    """Write the end of a queued run, as its process would."""
    folder = server.store().job_folder(run)
    folder.write_state(folder.state().ending(status, **parts))  # type: ignore[arg-type]


def test_each_method_is_started_once(job: Job) -> None:
    found = reference_runs(job, rows(), start=True)
    assert models(found) == ["pca", "tsne", "umap"]
    assert {server.store().get(run).status for run in found} == {"queued"}
    for start in (True, False):
        assert reference_runs(job, rows(), start=start) == found
    assert len(server.store().list()) == 4


def test_nothing_is_started_unless_it_is_asked_for(job: Job) -> None:
    assert reference_runs(job, rows(), start=False) == []
    assert [one.id for one in server.store().list()] == [job.id]


def test_a_fit_that_exists_is_used_again(job: Job) -> None:
    same = fitted_run(rows(), "pca", {})
    other = fitted_run(rows(), "tsne", {"perplexity": 5.0, "max_iter": 250})
    assert reference_runs(job, rows(), start=False) == [same, other]
    found = reference_runs(job, rows(), start=True)
    assert found[:2] == [same, other]
    assert models(found) == ["pca", "tsne", "umap"]


def test_the_method_of_the_run_itself_is_left_out() -> None:
    own = server.store().get(fitted_run(rows(), "pca", {"n_components": 2}))
    assert models(reference_runs(own, rows(), start=True)) == ["tsne", "umap"]


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_a_fit_that_did_not_end_well_is_not_started_again(job: Job, status: str) -> None:
    first, second, third = reference_runs(job, rows(), start=True)
    end(second, status, message="No.")
    assert reference_runs(job, rows(), start=True) == [first, third]
    assert len(server.store().list()) == 4


def test_an_interrupted_fit_is_resumed(job: Job) -> None:
    found = reference_runs(job, rows(), start=True)
    end(found[1], "interrupted")
    assert reference_runs(job, rows(), start=True) == found
    assert server.store().get(found[1]).status == "queued"


def test_a_method_that_cannot_take_the_table_is_left_out() -> None:
    table = rows(gaps=True)  # one row is without a gap
    own = server.store().get(fitted_run(table, "ppca", {"n_components": 2}))
    assert reference_runs(own, table, start=True) == []


def test_a_full_queue_leaves_the_run_alone(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.store().queue, "most_waiting", 0)
    assert reference_runs(job, rows(), start=True) == []


def test_a_folder_that_cannot_be_written_starts_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(server.store()), "writable", property(lambda _: False))
    monkeypatch.setattr(runs, "start_fit", lambda *_: pytest.fail("a fit was started"))
    assert reference_runs(job, rows(), start=True) == []
    assert reference_maps.MOST_ROWS == 5000
