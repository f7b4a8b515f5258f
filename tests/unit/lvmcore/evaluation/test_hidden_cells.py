"""Intervals of hidden cells of columns with likelihoods of their own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import nbinom, poisson

from lvmcore.data import Dataset
from lvmcore.evaluation.cell_density import number_log_density
from lvmcore.evaluation.hidden_cells import hidden_frame, imputation_metrics, predict_hidden
from lvmcore.jobs.impute import _check_metrics
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.results import Predictive

NAMES = ["visits", "region = east", "region = west", "answer"]


class Filled:
    """A model whose fillings are given."""

    column_likelihood_ = "poisson, categorical(2), bernoulli"

    def __init__(self, mean: Any, variance: Any) -> None:
        self.filled = Predictive(np.array(mean), np.array(variance), np.array(variance))

    def impute(self, X: Any) -> Predictive:
        return self.filled


def test_counts_have_whole_ends_and_levels_are_one_or_both() -> None:
    X = np.array(
        [[0.0, 1.0, 0.0, 1.0], [3.0, 0.0, 1.0, 2.0], [5.0, 1.0, 0.0, 1.0], [40.0, 0.0, 1.0, 2.0]]
    )
    p = np.array([0.99, 0.5, 0.7, 0.01])
    mean = np.column_stack([[2.0, 3.0, 4.0, 5.0], p, 1 - p, 1 + p])
    variance = np.column_stack([mean[:, 0], p * (1 - p), p * (1 - p), p * (1 - p)])
    dataset = Dataset.from_arrays(X, feature_names=NAMES)
    hidden = np.ones(X.shape, dtype=bool)
    cells = predict_hidden(Filled(mean, variance), dataset, X, hidden)  # type: ignore[arg-type]
    found = hidden_frame(cells, dataset, X, 0.9)
    visits = found[found["feature"] == "visits"]
    np.testing.assert_allclose(visits["lower"], poisson.ppf(0.05, mean[:, 0]), atol=1e-9)
    np.testing.assert_allclose(visits["upper"], poisson.ppf(0.95, mean[:, 0]), atol=1e-9)
    east = found[found["feature"] == "region = east"]
    np.testing.assert_allclose(east["lower"], [1, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(east["upper"], [1, 1, 1, 0], atol=1e-9)
    answer = found[found["feature"] == "answer"]
    np.testing.assert_allclose(answer["lower"], [2, 1, 1, 1], atol=1e-9)
    np.testing.assert_allclose(answer["upper"], [2, 2, 2, 1], atol=1e-9)
    # Of the counts 0, 3, 5 and 40 the intervals hold two or three; the levels do not count.
    inside = (visits["lower"] <= visits["truth"]) & (visits["truth"] <= visits["upper"])
    assert imputation_metrics(cells, "")["cells_coverage_90"].value == pytest.approx(inside.mean())
    assert (found["has_interval"] == (found["feature"] == "visits")).all()
    error = np.sqrt(np.square((mean - X)[:, 0]).mean()) / X[:, 0].std()
    assert _check_metrics(cells, 16)["impute_rmse"].value == pytest.approx(error)


def test_the_density_of_each_cell_is_of_its_column() -> None:
    X = np.array([[0.0, 1.0, 0.0, 1.0], [3.0, 0.0, 1.0, 2.0], [5.0, 1.0, 0.0, 1.0]])
    p = np.array([0.9, 0.5, 0.0])
    mean = np.column_stack([[2.0, 3.0, 4.0], p, 1 - p, 1 + p])
    spread = np.column_stack([[2.0, 5.0, 4.0], p * (1 - p), p * (1 - p), p * (1 - p)])
    dataset = Dataset.from_arrays(X, feature_names=NAMES)
    hidden = np.ones(X.shape, dtype=bool)
    hidden[1, 0] = False
    cells = predict_hidden(Filled(mean, spread), dataset, X, hidden)  # type: ignore[arg-type]
    # Counts; regions east, west, east; answers 1, 2, 1 of the values 1 and 2, P(2) = p.
    expected = [
        *poisson.logpmf([0, 5], [2, 4]),
        *np.log([0.9, 0.5, 0.001 / 1.001]),
        *np.log([0.1, 0.5, 1 / 1.001]),
    ]
    found = imputation_metrics(cells, "")["cells_nlpd"]
    assert found.value == pytest.approx(-np.mean(expected))
    assert "a category being one cell" in found.protocol
    # Means and sds of the columns: frequencies of the levels, and a negative binomial of counts.
    plain = replace(cells, mean=0 * cells.mean, variance=0 * cells.mean + 1)
    m, v = X[:, 0].mean(), X[:, 0].var()
    expected = [
        *nbinom.logpmf([0, 5], m**2 / (v - m), m / v),
        *np.log(np.array([2, 1, 2, 2, 1, 2]) / 3),
    ]
    assert imputation_metrics(plain, "")["cells_nlpd"].value == pytest.approx(-np.mean(expected))


def test_a_level_that_no_row_of_the_fit_has_is_not_impossible() -> None:
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    names = ["region = east", "region = west", "region = north"]
    model = Filled(np.tile([0.6, 0.4, 0.0], (3, 1)), np.full((3, 3), 0.24))
    model.column_likelihood_ = "categorical(3)"
    fitted = X.copy()
    fitted[2] = np.nan
    dataset = Dataset.from_arrays(fitted[:2], feature_names=names)
    cells = predict_hidden(model, dataset, X, np.ones(X.shape, dtype=bool))  # type: ignore[arg-type]
    density = imputation_metrics(cells, "")["cells_nlpd"].value
    assert density == pytest.approx(-np.mean(np.log(np.array([0.6, 0.4, 0.001]) / 1.001)))


@pytest.mark.slow
def test_densities_of_numbers_are_the_ratio_of_densities_of_rows(rng: np.random.Generator) -> None:
    """p(hidden | others) = ∫ p(row | x) p(x) dx / ∫ p(others | x) p(x) dx, on a grid of x."""
    z = np.linspace(-2, 2, 49)
    X = np.column_stack(
        [
            3 + 2 * z + 0.5 * rng.standard_normal(49),
            np.exp(1 + z + 0.3 * rng.standard_normal(49)),
            rng.poisson(np.exp(1 - 0.8 * z)),
            rng.negative_binomial(3, 1 / (1 + np.exp(0.5 * z))),
            5 * z + rng.standard_t(3, 49),
            rng.beta(8 / (1 + np.exp(-z)), 8 / (1 + np.exp(z))),
            z > 0.3 * rng.standard_normal(49),
        ]
    )
    text = "gaussian, log_normal, poisson, negative_binomial, student_t, beta, bernoulli"
    model = BayesianGPLVM(column_likelihood=text, n_components=1, n_inducing=6, max_iter=25).fit(X)
    decoder, standard = model._decoder, model._standardiser
    grid = torch.linspace(-5, 5, 201).double()[:, None]
    hidden = np.arange(49)[:, None] % 7 == np.arange(7)  # one cell of each row
    found = number_log_density(model, X, hidden)
    assert found is not None
    assert np.isnan(found[~hidden]).all()
    Y, left = (
        torch.as_tensor(standard.transform(rows)) for rows in (X, np.where(hidden, np.nan, X))
    )
    with torch.no_grad():
        both, others = (
            torch.logsumexp(
                decoder.log_density(part, grid[:, None].expand(-1, 49, 1)) - 0.5 * grid.square(), 0
            )
            for part in (Y, left)
        )
    expected = (both - others).numpy() - np.log(standard.scale)[np.arange(49) % 7]
    for d in range(6):
        away = found[d::7, d] - expected[d::7]
        assert np.abs(away).mean() < 0.1, (d, away)
    assert np.isnan(found[:, 6]).all()  # of levels there are probabilities


def test_levels_alone_have_no_coverage() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    model = Filled(np.full((3, 2), 0.5), np.full((3, 2), 0.25))
    model.column_likelihood_ = "categorical(2)"
    dataset = Dataset.from_arrays(X, feature_names=NAMES[1:3])
    cells = predict_hidden(model, dataset, X, np.ones(X.shape, dtype=bool))  # type: ignore[arg-type]
    assert imputation_metrics(cells, "")["cells_coverage_90"].value is None
