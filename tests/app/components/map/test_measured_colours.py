"""The Latent and the Fit page of a run with several starts."""

from __future__ import annotations

import numpy as np
import pytest

from app.components.map import measured_colours
from app.figures import live_charts
from app.formatting import number
from app.services import caching, fitted_maps, progress, server
from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.results import FitStep
from lvmcore.runs import JobSpec
from tests.app.conftest import OpenPage
from tests.app.views.fit.test_page import dataset_with_labels
from tests.app.views.latent.test_page import box, texts
from tests.scenes import scenes

SETTINGS = {"n_components": 2, "n_inducing": 8, "max_iter": 15, "start": "random"}


def ran(**settings: object) -> str:
    """A run that was fitted in this process."""
    dataset: Dataset = dataset_with_labels()
    store = server.store()
    store.datasets.put(dataset)
    spec = JobSpec(dataset.digest, dataset.name, "bayesian_gplvm", {**SETTINGS, **settings})
    with store.own(spec) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        return folder.path.name


@pytest.fixture(scope="module")
def several(shared_home: object) -> str:
    del shared_home  # where it is kept
    return ran(n_restarts=3)


@pytest.fixture(scope="module")
def single(shared_home: object) -> str:
    del shared_home
    return ran()


def test_rows_are_coloured_by_how_far_the_starts_disagree(
    open_page: OpenPage, several: str
) -> None:
    page = open_page("latent", run=several)
    assert not page.exception
    assert "3 starts; the one with the highest bound is shown" in texts(page)
    assert "disagreement of the starts, dimensions 1 and 2: **" in texts(page)
    box(page, "Colour").set_value(measured_colours.BY_DISAGREEMENT).run()
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.legend[0] == "disagreement of restarts, radii of the map"
    rows = fitted_maps.start_agreement(several)
    assert rows is not None
    look = measured_colours.disagreement_colour(several)
    assert look is not None
    np.testing.assert_array_equal(look.values, rows["disagreement"])
    said = [f"disagreement of restarts: {number(value, 2)}" for value in rows["disagreement"]]
    assert [text.rsplit("\n", 1)[1] for text in shown.data["texts"]] == said


def test_the_point_says_how_far_its_own_row_is_apart(open_page: OpenPage, several: str) -> None:
    page = open_page("latent", run=several)
    box(page, "Row").set_value(4).run()
    assert not page.exception
    said = measured_colours.describe_disagreement(several, 4)
    assert said is not None
    assert "in two restarts differ by" in said
    rows = fitted_maps.start_agreement(several)
    assert rows is not None
    assert f"{rows['neighbour_agreement'].iloc[4]:.0%} of its nearest rows" in said
    assert any("in two restarts differ by" in caption.value for caption in page.caption)


def test_a_row_whose_neighbours_are_not_compared_says_only_its_distance(
    several: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = fitted_maps.start_agreement(several)
    assert rows is not None
    monkeypatch.setattr(
        fitted_maps, "start_agreement", lambda _: rows.assign(neighbour_agreement=np.nan)
    )
    said = measured_colours.describe_disagreement(several, 4)
    assert said is not None
    assert said.endswith("radii of the map (root mean square).")


def test_a_run_whose_table_of_starts_is_gone_shows_its_map(
    open_page: OpenPage, several: str
) -> None:
    path = server.store().job_folder(several).path / "agreement.parquet"
    kept = path.read_bytes()
    path.unlink()
    caching.clear()
    try:
        page = open_page("latent", run=several)
        assert not page.exception
        assert measured_colours.DISAGREEMENT_TITLE not in box(page, "Colour").options
    finally:
        path.write_bytes(kept)
        caching.clear()


def test_a_run_with_one_start_says_nothing_of_starts(open_page: OpenPage, single: str) -> None:
    page = open_page("latent", run=single)
    box(page, "Row").set_value(4).run()
    assert not page.exception
    assert "disagreement" not in texts(page)
    assert measured_colours.DISAGREEMENT_TITLE not in box(page, "Colour").options
    assert measured_colours.disagreement_colour(single) is None
    assert measured_colours.describe_disagreement(single, 4) is None


def test_the_fit_page_shows_the_start_that_was_kept(open_page: OpenPage, several: str) -> None:
    page = open_page("fit", run=several)
    assert not page.exception
    kept = fitted_maps.selected_start(several)
    found = fitted_maps.model(several).restarts_  # type: ignore[attr-defined]
    assert kept == 1 + int(np.argmax(found.bounds))
    assert f"Restart {kept} of 3, which was kept." in texts(page)
    (window,) = page.slider
    assert (window.min, window.max) == (15 * kept - 14, 15 * kept)
    shown = progress.progress(several).of_start(kept)
    assert {step.start for step in shown.steps} == {kept}
    assert shown.snapshot is not None
    np.testing.assert_allclose(
        shown.snapshot.mean[:, 0],
        fitted_maps.model(several).embedding_.mean[:, shown.snapshot.dimensions[0]],
        rtol=1e-3,
    )


def test_curves_of_several_starts_are_not_joined() -> None:
    steps = [FitStep(i, 6, float(i), -float(i), start=1 + i // 4, starts=2) for i in range(1, 7)]
    (line,) = live_charts.overlay_chart({"run": steps})["series"]
    assert [at for at, _ in line["data"]] == [1, 2, 3, 4, 4, 5, 6]
    assert [value for _, value in line["data"]] == [-1.0, -2.0, -3.0, None, -4.0, -5.0, -6.0]
    (alone,) = live_charts.bound_chart(steps[:3])["series"]
    assert None not in [value for _, value in alone["data"]]
