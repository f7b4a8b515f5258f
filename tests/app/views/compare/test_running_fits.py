"""Fits under way on the Compare page: their maps and bounds so far, side by side."""

import json

import numpy as np
from streamlit.testing.v1 import AppTest

from app import navigation
from lvmcore.data import Dataset
from lvmcore.results import FitStep, Snapshot
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.event_log import EventLog
from lvmcore.runs.job_folder import JobFolder
from tests.app.conftest import MAIN, PATIENCE_SECONDS

ROWS = 30


def dataset() -> Dataset:
    X = np.random.default_rng(0).normal(size=(ROWS, 4))
    return Dataset.from_arrays(X, np.repeat(["a", "b", "c"], 10), name="thirty")


def report(folder: JobFolder, *, bounds: list[float], mean: np.ndarray | None = None) -> None:
    """Write the steps of a fit, the last with its map."""
    log = EventLog(folder.files.events)
    for at, bound in enumerate(bounds, 1):
        last = at == len(bounds)
        snapshot = None
        if last and mean is not None:
            weights = {"data": np.array([0.6, 0.4])}
            snapshot = Snapshot(mean, np.arange(len(mean)), (0, 1), weights)
        terms = {} if np.isnan(bound) else {"data": bound}
        log.add(FitStep(at, 50, float(at), bound, terms, snapshot))
    log.close()


def opened(*runs: str) -> AppTest:
    page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
    page.run()
    page.query_params["runs"] = ",".join(runs)
    return page.switch_page(navigation.PAGES["compare"]).run()


def charts(page: AppTest) -> list[dict[str, object]]:
    return [json.loads(element.proto.spec) for element in page.get("echarts_chart")]


def test_fits_under_way_show_map_and_bound_so_far_side_by_side(quiet_store: Store) -> None:
    rows = dataset()
    quiet_store.datasets.put(rows)
    first, second = (
        JobSpec(rows.digest, rows.name, "bayesian_gplvm", {"n_components": Q}) for Q in (2, 3)
    )
    mean = np.random.default_rng(1).normal(size=(ROWS, 2))
    with quiet_store.own(first) as one, quiet_store.own(second) as other:
        report(one, bounds=[-90.0, -60.0, -50.0], mean=mean)
        report(other, bounds=[-80.0, -70.0])
        page = opened(one.path.name, other.path.name)
        assert not page.exception
        map_so_far, bound, bound_alone = charts(page)
    points = [point for group in map_so_far["series"] for point in group["data"]]
    np.testing.assert_allclose(sorted(points), sorted(mean.tolist()), atol=1e-3)
    assert [group["name"] for group in map_so_far["series"]] == ["a", "b", "c"]
    assert bound["series"][0]["data"] == [[1, -90.0], [2, -60.0], [3, -50.0]]
    assert bound_alone["series"][0]["data"] == [[1, -80.0], [2, -70.0]]
    assert [button.label for button in page.main.button].count("Cancel") == 2


def test_a_fit_whose_steps_have_no_bound_shows_its_steps_alone(quiet_store: Store) -> None:
    rows = dataset()
    quiet_store.datasets.put(rows)
    with quiet_store.own(JobSpec(rows.digest, rows.name, "umap", {})) as folder:
        report(folder, bounds=[np.nan, np.nan])
        page = opened(folder.path.name)
        assert not page.exception
    assert not charts(page)
    assert "Step 2 of at most 50." in [caption.value for caption in page.main.caption]
