"""Hierarchical Poisson factorisation: planted factors, densities, missing cells, samples."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment
from scipy.stats import poisson

from lvmcore import HierarchicalPoissonFactorisation, load

Array = NDArray[np.float64]


def planted(n_rows: int = 300, seed: int = 0) -> tuple[Array, Array, Array]:
    """Counts of three factors of 20 columns, of rows of different activity."""
    rng = np.random.default_rng(seed)
    profiles = rng.gamma(0.4, 1.0, (3, 20))
    theta = rng.gamma(0.5, 1.0, (n_rows, 3)) * rng.gamma(2.0, 4.0, (n_rows, 1))
    return rng.poisson(theta @ profiles).astype(float), theta, profiles


def test_factors_that_were_planted_are_found() -> None:
    counts, theta, profiles = planted()
    model = HierarchicalPoissonFactorisation(n_components=3).fit(counts)
    likeness = np.corrcoef(np.vstack([profiles, model.weights_]))[:3, 3:]
    rows, columns = linear_sum_assignment(-likeness)
    assert likeness[rows, columns].min() > 0.95
    for true, found in zip(rows, columns, strict=True):
        assert np.corrcoef(theta[:, true], model.embedding_.mean[:, found])[0, 1] > 0.9
    shares = model.relevance_["data"]
    assert (np.diff(shares) <= 0).all()
    assert shares.sum() == pytest.approx(1)
    # The scale is that of the row totals.
    assert model.weights_.sum(axis=1).mean() == pytest.approx(1)
    assert model.converged_


def test_the_bound_rises_with_every_sweep_and_learned_priors_raise_it() -> None:
    counts, _, _ = planted()
    model = HierarchicalPoissonFactorisation(n_components=3).fit(counts)
    bounds = np.array([step.objective for step in model.history_])
    assert (np.diff(bounds) > -1e-6).all()
    assert model.elbo_ == bounds[-1]
    fixed = HierarchicalPoissonFactorisation(n_components=3, prior_shape=0.3).fit(counts)
    assert fixed.priors_["rows"].shape == 0.3
    assert model.elbo_ > fixed.elbo_ + 20
    assert (np.diff([step.objective for step in fixed.history_]) > -1e-6).all()


def test_the_density_of_a_row_is_that_of_an_integral() -> None:
    counts, _, _ = planted(60)
    model = HierarchicalPoissonFactorisation(n_components=1).fit(counts)
    weights, prior = model.weights_[0], model.priors_["rows"]
    rows = counts[:3].copy()
    rows[2, 5:] = np.nan
    found = model.score_samples(rows)
    for row, log_density in zip(rows, found, strict=True):
        known = ~np.isnan(row)

        def joint(theta: float, row: Array = row, known: NDArray[np.bool_] = known) -> float:
            cells = poisson.logpmf(row[known], theta * weights[known]).sum()
            weight = torch.tensor([theta], dtype=torch.float64)
            return float(np.exp(cells + float(prior.log_density(weight))))

        centre = np.nansum(row) / weights[known].sum()
        points = [centre / 4, centre, 3 * centre]
        integral = quad(joint, centre / 50, 6 * centre, points=points, limit=200)[0]
        assert log_density == pytest.approx(np.log(integral), abs=0.05)
    assert model.score_samples(np.full((1, 20), np.nan)) == 0


def test_missing_cells_are_filled_better_than_by_the_columns_means() -> None:
    counts, theta, profiles = planted()
    hidden = np.random.default_rng(1).random(counts.shape) < 0.2
    seen = np.where(hidden, np.nan, counts)
    model = HierarchicalPoissonFactorisation(n_components=3).fit(seen)
    filled = model.impute(seen)
    np.testing.assert_array_equal(filled.mean[~hidden], counts[~hidden])
    truth = (theta @ profiles)[hidden]
    ours = np.abs(filled.mean[hidden] - truth).mean()
    means = np.abs(np.broadcast_to(np.nanmean(seen, axis=0), seen.shape)[hidden] - truth).mean()
    assert ours < 0.5 * means
    # The variance is calibrated: squared errors over it are 1 in the mean.
    errors = (filled.mean - counts)[hidden] ** 2 / filled.variance[hidden]
    assert 0.7 < errors.mean() < 1.4


def test_sampled_rows_have_the_moments_of_what_is_decoded() -> None:
    counts, _, _ = planted()
    model = HierarchicalPoissonFactorisation(n_components=3).fit(counts)
    drawn = model.sample(40_000, rows=[7], random_state=0)
    assert (drawn == np.round(drawn)).all()
    decoded = model.decode(model.embedding_.mean[7:8])
    np.testing.assert_allclose(drawn.mean(axis=0), decoded.mean[0], rtol=0.1, atol=0.05)
    prior = model.sample(20_000, random_state=1)
    assert (prior >= 0).all()
    assert np.median(prior.sum(axis=1)) == pytest.approx(np.median(counts.sum(axis=1)), rel=0.4)


def test_a_loaded_model_places_rows_where_the_fitted_one_does(tmp_path: Path) -> None:
    counts, _, _ = planted(80)
    model = HierarchicalPoissonFactorisation(n_components=2).fit(counts)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = load(path)
    np.testing.assert_array_equal(again.transform(counts[:9]), model.transform(counts[:9]))
    np.testing.assert_array_equal(again.score_samples(counts[:9]), model.score_samples(counts[:9]))
    assert again.priors_ == model.priors_
