"""Starts of one fit, and fits of several seeds, on the Compare page: maps and disagreement."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group
from streamlit.testing.v1 import AppTest

from app.analysis.comparison import map_stability
from app.formatting import number
from app.services import fitted_maps, row_analysis, server, sweeps
from app.views.compare import repeated_fits
from app.views.compare.repeated_fits import runs_by_seed
from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec
from lvmcore.runs.sweep import new_sweep
from tests.app.analysis.comparison.test_trajectories import compare
from tests.app.conftest import OpenPage
from tests.app.controls import unexplained
from tests.app.views.latent.test_page import box, charts, texts
from tests.app.views.new_rows.test_page import numbers

SETTINGS = {"n_components": 2, "n_inducing": 6, "max_iter": 8, "start": "random"}


def data(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(36, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(36, 5))
    return Dataset.from_arrays(X, ["a", "b"] * 18, name=f"again {seed}")


def ran(dataset: Dataset, sweep: str = "", **settings: object) -> str:
    store = server.store()
    store.datasets.put(dataset)
    parameters = {**SETTINGS, **settings}
    spec = JobSpec(dataset.digest, dataset.name, "bayesian_gplvm", parameters, "GP", sweep=sweep)
    with store.own(spec) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        return folder.path.name


@pytest.fixture(scope="module")
def several(shared_home: Path) -> str:
    del shared_home  # where it is kept
    return ran(data(1), n_restarts=3)


@pytest.fixture(scope="module")
def swept(shared_home: Path) -> str:
    """A sweep over three seeds."""
    del shared_home
    sweep = new_sweep()
    for seed in range(3):
        ran(data(2), sweep, random_state=seed)
    return sweep


def small(page: AppTest) -> list[np.ndarray]:
    """Where each small map draws the rows, in their order."""
    found = []
    for chart in charts(page):
        if chart["layout"]["height"] == 210:
            place = {
                int(text.removeprefix("<b>row ").partition("<")[0]): (x, y)
                for trace in chart["data"]
                for text, x, y in zip(
                    trace["hovertext"], numbers(trace["x"]), numbers(trace["y"]), strict=True
                )
            }
            found.append(np.array([place[row] for row in sorted(place)]))
    return found


# ---- the arithmetic --------------------------------------------------------------------------


def test_maps_that_were_moved_lie_over_the_first() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    turn = ortho_group.rvs(3, random_state=rng)
    first, second = map_stability.align_all([X, 0.3 * X @ turn + 5.0], (2, 0))
    np.testing.assert_array_equal(first, X[:, [2, 0]])
    np.testing.assert_allclose(second, first, atol=1e-9)
    still = np.zeros((30, 3))  # nothing to turn
    np.testing.assert_array_equal(map_stability.align_all([X, still], (0, 1))[1], still[:, :2])


def test_the_disagreement_is_the_distance_between_the_places() -> None:
    """Two maps of a radius of 1, one turned onto the other beforehand."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 2))
    X -= X.mean(axis=0)
    X /= np.sqrt(np.square(X).sum(axis=1).mean())
    Y = X + 0.1 * rng.normal(size=X.shape)
    Y -= Y.mean(axis=0)
    Y /= np.sqrt(np.square(Y).sum(axis=1).mean())
    angles = np.linspace(0, 2 * np.pi, 20_001)
    turned = [Y @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in angles]
    best = min(turned, key=lambda Z: float(np.square(X - Z).sum()))
    found = map_stability.row_disagreement([X, 4 * Y + 1])
    assert found is not None
    np.testing.assert_allclose(found, np.hypot(*(X - best).T), atol=2e-3)
    middle, high = map_stability.spread(found)
    assert middle == pytest.approx(np.median(found))
    assert np.mean(found <= high) == pytest.approx(0.9, abs=0.02)


def test_long_maps_are_compared_on_rows_evenly_spaced() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 2))
    found = map_stability.row_disagreement([X, X + 0.1 * rng.normal(size=X.shape)])
    assert found is not None
    known = np.flatnonzero(np.isfinite(found))
    assert len(known) <= map_stability.MOST_ROWS
    assert set(np.diff(known).tolist()) == {3}
    assert np.isfinite(map_stability.spread(found)).all()


def test_maps_that_cannot_be_compared() -> None:
    X = np.random.default_rng(3).normal(size=(9, 2))
    assert map_stability.row_disagreement([X]) is None
    assert map_stability.row_disagreement([X, X[:, :1]]) is None
    assert map_stability.row_disagreement([X, np.zeros((9, 2))]) is None


# ---- starts of one fit -----------------------------------------------------------------------


def test_the_starts_are_drawn_beside_one_another_the_kept_one_first(several: str) -> None:
    page = compare(several)
    assert not page.exception
    starts: Any = fitted_maps.model(several).restarts_  # type: ignore[attr-defined]
    maps = small(page)
    assert len(maps) == 3
    mean = fitted_maps.model(several).embedding_.mean
    np.testing.assert_allclose(maps[0], mean[:, _axes(several)])
    said = texts(page)
    order = np.argsort(-starts.bounds)
    named = re.findall(r"\*\*(restart \d(?:, kept)?)\*\*", said)
    assert named == [f"restart {starts.starts[order[0]]}, kept"] + [
        f"restart {starts.starts[r]}" for r in order[1:]
    ]
    for bound in starts.bounds:
        assert number(float(bound), 6) in said.replace("\\", "")
    agreement = fitted_maps.start_agreement(several)
    assert agreement is not None
    middle, high = map_stability.spread(agreement["disagreement"].to_numpy())
    assert f"median **{number(middle, 2)}**, 90 % quantile **{number(high, 2)}**" in said
    assert not unexplained(page)


def _axes(run: str) -> list[int]:
    from lvmcore.relevance import leading_dimensions

    first, second = leading_dimensions(fitted_maps.model(run).variance_shares())
    assert second is not None
    return [first, second]


def test_rows_are_coloured_by_the_disagreement_or_as_above(several: str) -> None:
    page = compare(several)
    agreement = fitted_maps.start_agreement(several)
    assert agreement is not None
    chart = next(one for one in charts(page) if one["layout"]["height"] == 210)
    (trace,) = chart["data"]
    found = agreement["disagreement"].to_numpy()
    shares = (found - found.min()) / (found.max() - found.min())
    np.testing.assert_allclose(numbers(trace["marker"]["color"]), shares)
    (control,) = [one for one in page.get("button_group") if one.label.startswith("Colour of")]
    control.set_value("as above").run()
    assert not page.exception
    chart = next(one for one in charts(page) if one["layout"]["height"] == 210)
    assert {trace["name"] for trace in chart["data"]} == {"a", "b"}


# ---- fits of several seeds -------------------------------------------------------------------


def test_a_sweep_over_seeds_shows_how_far_they_agree(open_page: OpenPage, swept: str) -> None:
    page = open_page("compare")
    page.query_params["sweep"] = swept
    page.run()
    assert not page.exception
    assert len(small(page)) == 3
    runs = [job.id for job in sweeps.sweep_by_id(swept)[swept]]
    found = row_analysis.row_disagreement(runs)
    assert found is not None
    assert row_analysis.row_disagreement(runs[::-1]) is found
    middle, _ = map_stability.spread(found)
    said = texts(page)
    assert f"Disagreement of these 3 fits on a row: median **{number(middle, 2)}**" in said
    assert "**seed " in said
    assert not unexplained(page)


def test_runs_side_by_side_that_differ_by_their_seed(several: str, swept: str) -> None:
    jobs = sweeps.sweep_by_id(swept)[swept]
    assert runs_by_seed(jobs)
    assert not runs_by_seed([*jobs, server.store().get(several)])
    page = compare(*(job.id for job in jobs[:2]))
    assert not page.exception
    assert len(small(page)) == 2
    assert "Disagreement of these 2 fits" in texts(page)


@pytest.mark.slow
def test_two_groups_can_be_chosen_between(shared_home: Path) -> None:
    first, second = (ran(data(4), n_restarts=2, random_state=seed) for seed in (5, 6))
    page = compare(first, second)
    assert not page.exception
    asked = box(page, "Show the")
    assert len(asked.options) == 3
    asked.select_index(2).run()
    assert not page.exception
    assert "Disagreement of these 2 fits" in texts(page)


@pytest.mark.slow
def test_groups_of_one_name_are_all_offered(shared_home: Path) -> None:
    names = []
    for n_inducing in (6, 7):
        names += [ran(data(6), n_inducing=n_inducing, random_state=seed) for seed in (1, 2)]
    page = compare(*names)
    assert not page.exception
    asked = box(page, "Show the")
    assert asked.options == ["seeds of GP", "seeds of GP (2)"]
    drawn = []
    for place in range(2):
        box(page, "Show the").select_index(place).run()
        assert not page.exception
        drawn.append(small(page)[0])
    assert not np.allclose(*drawn)


def test_of_many_seeds_only_the_maps_that_are_drawn_are_loaded(
    open_page: OpenPage, swept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [job.id for job in sweeps.sweep_by_id(swept)[swept]]
    row_analysis.row_disagreement(runs)  # once for all
    loaded: list[str] = []
    load = fitted_maps.model
    monkeypatch.setattr(repeated_fits, "MOST_MAPS", 2)
    monkeypatch.setattr(fitted_maps, "model", lambda run: (loaded.append(run), load(run))[1])
    page = open_page("compare")
    page.query_params["sweep"] = swept
    page.run()
    assert not page.exception
    assert len(small(page)) == 2
    assert len(set(loaded) & set(runs)) == 2
    assert "Disagreement of these 3 fits" in texts(page)
    assert "2 of 3 maps are drawn" in texts(page)


def test_runs_with_one_start_show_nothing_of_it(shared_home: Path) -> None:
    page = compare(ran(data(5)))
    assert not page.exception
    assert small(page) == []
    assert "Disagreement of restarts and seeds" not in [one.value for one in page.header]
