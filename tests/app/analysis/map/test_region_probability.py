"""P(inside a region) against the exact probability of rectangles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from app.analysis.map import region_probability as module
from app.analysis.map.region_probability import probability_in_region
from app.analysis.map.regions import Region
from app.services import fitted_maps
from lvmcore.results import Posterior
from tests.app.conftest import OpenPage
from tests.app.views.latent.test_page import frame_with, texts

BOX = ((-1.0, 0.0), (1.5, 0.0), (1.5, 2.0), (-1.0, 2.0))


def of_box(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The exact probability of BOX on two axes, [N]."""
    low, high = np.array(BOX).min(axis=0), np.array(BOX).max(axis=0)
    return np.asarray(np.prod(norm.cdf((high - mean) / sd) - norm.cdf((low - mean) / sd), axis=1))


@pytest.fixture
def posterior() -> Posterior:
    rng = np.random.default_rng(1)
    return Posterior(3 * rng.normal(size=(300, 3)), rng.gamma(1.0, 0.5, size=(300, 3)))


def test_probabilities_are_those_of_the_rectangle(posterior: Posterior) -> None:
    found = probability_in_region(Region((2, 0), (BOX,)), posterior)
    exact = of_box(posterior.mean[:, [2, 0]], np.sqrt(posterior.variance[:, [2, 0]]))
    error = np.sqrt(np.maximum(exact * (1 - exact), 1e-3) / found.draws)
    assert (np.abs(found.probability - exact) < 4.5 * error).all()
    assert found.expected == pytest.approx(exact.sum(), abs=4 * np.sqrt((error**2).sum()))
    assert found.draws == 1000


def test_a_turned_box_holds_as_much_of_round_posteriors() -> None:
    """Rows with equal sds in both dimensions, box and rows turned together."""
    rng = np.random.default_rng(3)
    mean, sd = rng.normal(size=(200, 2)), rng.uniform(0.1, 1.0, 200)
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = tuple((float(x), float(y)) for x, y in np.array(BOX) @ turn.T)
    found = probability_in_region(
        Region((0, 1), (corners,)), Posterior(mean @ turn.T, np.tile(sd**2, (2, 1)).T)
    )
    exact = of_box(mean, sd[:, None])
    np.testing.assert_allclose(found.probability, exact, atol=4.5 * 0.5 / np.sqrt(1000))


def test_two_parts_add_up(posterior: Posterior) -> None:
    far = tuple((x + 50.0, y) for x, y in BOX)
    moved = Posterior(posterior.mean + np.array([50.0, 0.0, 0.0]), posterior.variance)
    both = Posterior(np.vstack([posterior.mean, moved.mean]), np.tile(posterior.variance, (2, 1)))
    found = probability_in_region(Region((0, 1), (BOX, far)), both)
    exact = of_box(posterior.mean[:, :2], np.sqrt(posterior.variance[:, :2]))
    np.testing.assert_allclose(found.probability, np.tile(exact, 2), atol=0.08)


def test_rows_clear_of_every_edge_are_in_or_out_without_a_draw() -> None:
    mean = np.array([[0.0, 1.0], [40.0, 1.0], [0.0, 1.0]])
    found = probability_in_region(
        Region((0, 1), (BOX,)), Posterior(mean, np.full((3, 2), [[0.01], [0.01], [0.0]]))
    )
    assert found.probability.tolist() == [1.0, 0.0, 1.0]


def test_on_a_map_of_one_dimension_only_that_one_is_uncertain() -> None:
    mean, variance = np.array([[0.2], [0.2], [0.2]]), np.full((3, 1), 0.25)
    corners = ((0.0, 1.5), (1.0, 1.5), (1.0, 9.0), (0.0, 9.0))  # upright is the row's number
    found = probability_in_region(Region((0, None), (corners,)), Posterior(mean, variance))
    exact = norm.cdf(1.6) - norm.cdf(-0.4)
    np.testing.assert_allclose(found.probability, [0.0, exact, exact], atol=0.07)


def test_the_number_inside_has_the_moments_of_independent_rows() -> None:
    """Fifty rows on the edge of a half plane: a binomial number of them is inside."""
    half = ((0.0, -99.0), (99.0, -99.0), (99.0, 99.0), (0.0, 99.0))
    found = probability_in_region(
        Region((0, 1), (half,)), Posterior(np.zeros((50, 2)), np.ones((50, 2)))
    )
    assert found.expected == pytest.approx(binom(50, 0.5).mean(), abs=0.5)
    assert found.sd == pytest.approx(binom(50, 0.5).std(), rel=0.01)


def test_of_many_rows_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    region, rng = Region((0, 1), (BOX,)), np.random.default_rng(8)
    many = Posterior(3 * rng.normal(size=(12_000, 3)), 0.3 * rng.gamma(1.0, 0.5, (12_000, 3)))
    whole = probability_in_region(region, many)
    assert not np.isnan(whole.probability).any()
    monkeypatch.setattr(module, "MOST_ROWS", 6001)
    monkeypatch.setattr(module, "DRAWS_IN_ALL", 50_000)
    part = probability_in_region(region, many)
    assert np.isnan(part.probability[1::2]).all()
    known = ~np.isnan(part.probability)
    assert 1000 < known.sum() < 6000
    assert part.draws >= module.FEWEST_DRAWS
    assert part.expected == pytest.approx(whole.expected, rel=0.1)
    assert part.sd == pytest.approx(whole.sd, rel=0.1)


def test_rows_that_are_not_considered_have_no_probability(posterior: Posterior) -> None:
    region = Region((0, 1), (BOX,))
    among = np.arange(len(posterior.mean)) % 3 == 0
    found = probability_in_region(region, posterior, among)
    assert np.isnan(found.probability[~among]).all()
    assert found.considered == among.sum()
    assert found.expected == pytest.approx(found.probability[among].sum())
    none = probability_in_region(region, posterior, np.zeros_like(among))
    assert (none.expected, none.sd, none.considered) == (0.0, 0.0, 0)


def test_draws_come_from_the_seed_and_few_rows_at_a_time_change_nothing_in_law(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = Region((0, 1), (BOX,))
    first = probability_in_region(region, posterior)
    np.testing.assert_array_equal(
        probability_in_region(region, posterior).probability, first.probability
    )
    assert (probability_in_region(region, posterior, seed=1).probability != first.probability).any()
    monkeypatch.setattr(module, "_DRAWS_PER_BLOCK", 7000)
    np.testing.assert_array_equal(
        probability_in_region(region, posterior).probability, first.probability
    )


def test_the_page_says_how_many_lie_inside(open_page: OpenPage, fitted: str) -> None:
    region = Region((0, 1), (((-9.0, -9.0), (0.0, -9.0), (0.0, 9.0), (-9.0, 9.0)),))
    page = open_page("latent", run=fitted)
    page.session_state["latent.selection"] = {fitted: region}
    page.run()
    assert not page.exception
    posterior = fitted_maps.model(fitted).embedding_
    assert fitted_maps.model(fitted).capabilities.uncertainty
    chosen = region.members(posterior.mean[:, :2])
    exact = norm.cdf(-posterior.mean[:, 0] / np.sqrt(posterior.variance[:, 0]))
    listed = frame_with(page, "row_id")["P(inside)"].to_numpy()
    np.testing.assert_allclose(listed, exact[chosen], atol=0.08)
    assert "rows lie inside (expected number ± sd; 1000 draws" in texts(page)
