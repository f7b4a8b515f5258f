"""The Runs page in a browser: runs compared, renamed, taken away, deleted, and followed."""

import io

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from lvmcore.data import Dataset
from lvmcore.runs import JobSpec
from tests.e2e.dashboard import PATIENCE_MS, Dashboard
from tests.unit.lvmcore.runs.fitting import ran

CURVES = "The bounds of the selected runs"
SMALL = {"n_components": 2, "n_inducing": 5}


@pytest.fixture
def toy(rng: np.random.Generator) -> Dataset:
    X = rng.standard_normal((40, 4)) + np.repeat([[0.0], [4.0]], 20, axis=0)
    return Dataset.from_arrays(X, np.repeat(["a", "b"], 20), name="toy")


def test_runs_are_compared_renamed_taken_away_and_deleted(
    dashboard: Dashboard, toy: Dataset
) -> None:
    page, store = dashboard.page, dashboard.store()
    runs = [ran(store, toy, "ldgd", "twin", **SMALL, max_iter=n) for n in (4, 6)]
    dashboard.open("runs")
    table = page.get_by_test_id("stDataFrame").first
    dashboard.has_rows(table, 2)

    dashboard.tick(0)
    expect(page.get_by_role("heading", name="twin")).to_be_visible()
    dashboard.tick(1)
    expect(page.get_by_role("heading", name="2 runs")).to_be_visible()
    dashboard.settled()
    steps = {run: [event.step for event in store.events(run)] for run in runs}
    assert dashboard.curves(CURVES) == {
        "twin, steps at most 6": [[one.iteration, one.objective] for one in steps[runs[1]]],
        "twin, steps at most 4": [[one.iteration, one.objective] for one in steps[runs[0]]],
    }
    page.get_by_role("radio", name="seconds").click()
    dashboard.along(CURVES, "seconds since the start of the fit")
    assert dashboard.curves(CURVES)["twin, steps at most 4"] == [
        [one.seconds, one.objective] for one in steps[runs[0]]
    ]

    frame = pd.read_csv(io.BytesIO(dashboard.download("Curves as CSV")))
    for run in runs:
        bound = frame[(frame["run_id"] == run) & (frame["term"] == "bound")]
        assert bound["step"].tolist() == [one.iteration for one in steps[run]]
        assert bound["value"].tolist() == [one.objective for one in steps[run]]

    dashboard.tick(0)
    expect(page.get_by_role("heading", name="twin")).to_be_visible()
    dashboard.settled()
    dashboard.button("Name, note and tags").click()
    page.get_by_label("Name", exact=True).fill("the <b>first</b>")
    page.get_by_label("Note", exact=True).fill("four steps")
    dashboard.button("Save").click()
    expect(page.get_by_role("heading", name="the <b>first</b>")).to_be_visible()
    dashboard.settled()
    assert [(job.name, job.note) for job in store.list()] == [
        ("twin", ""),
        ("the <b>first</b>", "four steps"),
    ]
    named = table.locator('[role="gridcell"]').filter(has_text="the <b>first</b>")
    expect(named).to_be_attached(timeout=PATIENCE_MS)
    assert [row[0] for row in dashboard.cells(table)] == ["twin", "the <b>first</b>"]

    dashboard.follow("Export")
    expect(page.get_by_role("heading", name="Export", exact=True)).to_be_visible()
    assert dashboard.download("Map as PNG").startswith(b"\x89PNG")
    model = dashboard.download("Model file")
    assert model == (store.job_folder(runs[0]).path / "model.safetensors").read_bytes()
    bundle = dashboard.download("Bundle as ZIP")

    dashboard.open("runs", run=runs[0])
    dashboard.has_rows(page.get_by_test_id("stDataFrame").first, 2)
    dashboard.tick(0)
    expect(page.get_by_role("heading", name="twin")).to_be_visible()
    store.delete(runs[0])
    dashboard.open("runs")
    dashboard.button("Open a bundle").click()
    file = {"name": "run.zip", "mimeType": "application/zip", "buffer": bundle}
    page.locator('input[type="file"]').set_input_files(file)  # type: ignore[arg-type]
    dashboard.button("Open the run").click()
    expect(page.get_by_role("heading", name="the <b>first</b>")).to_be_visible()
    assert {job.id for job in store.list()} == set(runs)

    dashboard.button("Delete").click()
    dashboard.button("Delete this run").click()
    dashboard.says("Select a run to open")
    dashboard.has_rows(page.get_by_test_id("stDataFrame").first, 1)
    assert [job.id for job in store.list()] == [runs[1]]
    dashboard.says("Deleted: the <b>first</b>.")
    page.keyboard.press("Control+z")
    dashboard.has_rows(page.get_by_test_id("stDataFrame").first, 2)
    assert {job.id for job in store.list()} == set(runs)
    dashboard.no_traceback()


def test_a_run_under_way_is_followed_to_its_end(
    dashboard: Dashboard, rng: np.random.Generator
) -> None:
    page, store = dashboard.page, dashboard.store()
    latent = rng.standard_normal((6000, 3))  # too many rows for a fit to converge meanwhile
    X = np.sin(latent @ rng.standard_normal((3, 16))) + 0.1 * rng.standard_normal((6000, 16))
    digest = store.datasets.put(Dataset.from_arrays(X, name="big"))
    long = {"n_components": 5, "n_inducing": 60, "max_iter": 10_000}
    run = store.submit(JobSpec(digest, "big", "bayesian_gplvm", long, name="endless"))
    dashboard.open("runs")
    table = page.get_by_test_id("stDataFrame").first
    cell = table.locator('[role="gridcell"]')
    expect(cell.filter(has_text="running")).to_be_attached(timeout=PATIENCE_MS)
    dashboard.tick(0)
    expect(page.get_by_role("heading", name="endless")).to_be_visible(timeout=PATIENCE_MS)
    assert dashboard.grows(2, CURVES).remounts == 0
    store.cancel(run)
    expect(cell.filter(has_text="cancelled")).to_be_attached(timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", name="endless")).to_be_visible()
    expect(dashboard.way("Open the map")).to_be_visible(timeout=PATIENCE_MS)
    dashboard.no_traceback()
