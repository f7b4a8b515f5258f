"""``lvmcore runs``: listed, shown, deleted, resumed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lvmcore import cli
from lvmcore.data import Dataset
from lvmcore.runs import JobSpec, Store
from tests.unit.lvmcore.runs.fitting import ran


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home)


@pytest.fixture
def runs(store: Store, rng: np.random.Generator) -> list[str]:
    """One fitted and one queued run, and a file that is none."""
    toy = Dataset.from_arrays(rng.standard_normal((30, 3)), ["a", "b", "c"] * 10, name="toy")
    fitted = ran(store, toy, "ppca", "the [bold]first[/bold]", n_components=2)
    store.annotate(fitted, "worth keeping")
    (store.home / "jobs" / "stray").mkdir()
    return [fitted, store.submit(JobSpec(toy.digest, "toy", "ldgd"))]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["runs", *words]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def test_an_empty_store_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys) == f"There are no runs in {home}.\n"
    assert json.loads(said(capsys, "--json")) == []


def test_the_list_is_newest_first_and_fits_a_narrow_terminal(
    store: Store,
    runs: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.split() for line in said(capsys).splitlines() if line.strip()]
    assert lines[0][0] == "id"
    rows = [words for words in lines if words[0] in {run[:8] for run in runs}]
    assert [words[0] for words in rows] == [runs[1][:8], runs[0][:8]]
    assert "queued" in rows[0]
    assert "done" in rows[1]
    assert "the [bold]" in " ".join(rows[1])
    assert f"{store.get(runs[0]).elbo:,.1f}" in rows[1]


def test_json_holds_what_other_programs_need(
    store: Store, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    queued, fitted = json.loads(said(capsys, "--json"))
    job = store.get(runs[0])
    assert (queued["id"], queued["status"], queued["bound"]) == (runs[1], "queued", None)
    assert fitted["bound"] == job.elbo
    assert fitted["note"] == "worth keeping"
    assert fitted["parameters"] == {"n_components": 2}
    assert fitted["metrics"]["trustworthiness"]["value"] == job.metrics["trustworthiness"].value
    shown = json.loads(said(capsys, "show", runs[0], "--json"))
    assert shown == fitted | {"comparison": None}  # for a fit to a target alone


def test_a_run_is_shown_by_the_beginning_of_its_id(
    store: Store, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(capsys, "show", runs[0][:12].upper())
    assert runs[0] in shown
    assert "the [bold]first[/bold]" in shown
    assert "n_components=2" in shown
    assert "trustworthiness, dimensions 1 and 2: " in shown
    assert "worth keeping" in shown
    assert str(store.job_folder(runs[0]).path) in shown


def test_a_run_is_deleted(
    store: Store, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "delete", runs[0][:16]).startswith(f"Deleted {runs[0]}, the [bold]")
    assert [job.id for job in store.list()] == [runs[1]]


def test_a_deleted_run_is_listed_and_restored_and_the_bin_is_emptied(
    store: Store, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "bin") == "The bin is empty.\n"
    deleted = said(capsys, "delete", runs[0])
    assert f"`lvmcore runs restore {runs[0][:8]}` undoes it." in " ".join(deleted.split())
    listed = said(capsys, "bin").splitlines()
    assert listed[0].endswith("run the [bold]first[/bold]")
    assert listed[1] == "What was deleted is kept for 30 days."
    assert said(capsys, "restore", runs[0][:8]) == "Restored run the [bold]first[/bold].\n"
    assert {job.id for job in store.list()} == set(runs)
    assert cli.main(["runs", "restore", runs[0][:8]]) == 2
    assert "The bin holds no run or deletion" in capsys.readouterr().err
    store.datasets.delete(store.get(runs[0]).spec.dataset)
    assert "dataset toy with its runs: 2" in said(capsys, "bin")
    assert said(capsys, "bin", "--empty") == "Deleted 1 from the bin permanently.\n"
    assert store.bin.deletions() == []


@pytest.mark.parametrize("task", ["show", "delete", "resume"])
@pytest.mark.parametrize("name", ["zz", "", "../x"])
def test_a_run_that_is_not_there_is_2(
    runs: list[str], task: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["runs", task, name]) == 2
    assert f"There is no run {name!r}" in capsys.readouterr().err


def test_an_id_that_two_runs_share_is_not_guessed(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = JobSpec("0" * 64, "toy", "ppca")
    for _ in range(17):  # more than there are digits: two begin alike
        store.submit(spec)
    firsts = [job.id[0] for job in store.list()]
    shared = next(digit for digit in firsts if firsts.count(digit) > 1)
    assert cli.main(["runs", "delete", shared]) == 2
    assert f"begin with {shared!r}" in capsys.readouterr().err
    assert len(store.list()) == 17


def test_a_run_is_resumed_by_the_store(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Store, "resume", lambda self, name: seen.append(name), raising=False)
    assert f"Queued {runs[0]}" in said(capsys, "resume", runs[0][:10])
    assert seen == [runs[0]]


def test_a_reader_that_has_had_enough_is_no_error(runs: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "lvmcore.cli", "runs", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate()
    assert err == b""
    assert process.returncode == 0


def test_a_run_that_was_still_rising_goes_on(
    store: Store, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    dataset = Dataset.from_arrays(rng.standard_normal((30, 4)), name="toy")
    settings = {"n_components": 2, "n_inducing": 5, "max_iter": 40}
    short = ran(store, dataset, "bayesian_gplvm", **settings)
    assert "with 70 steps. It begins from step 16" in said(
        capsys, "continue", short, "--steps", "70"
    )
    (longer,) = [job for job in store.list() if job.spec.continues == short]
    assert longer.spec.parameters["max_iter"] == 70
    assert f"continues {short}" in said(capsys, "show", longer.id)
    assert json.loads(said(capsys, "show", longer.id, "--json"))["continues"] == short
    assert cli.main(["runs", "continue", runs[0]]) == 2
    assert "cannot be continued with more steps" in capsys.readouterr().err
