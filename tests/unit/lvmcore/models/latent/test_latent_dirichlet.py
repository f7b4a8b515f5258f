"""Topics: the library's numbers, the optimum of a row's place, and topics that were planted."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import digamma, gammaln
from scipy.stats import dirichlet
from sklearn import decomposition

from lvmcore import LatentDirichletAllocation

Array = NDArray[np.float64]


def planted(n_rows: int = 300, seed: int = 0) -> tuple[Array, Array, Array]:
    """Counts of rows that mix three topics of 20 columns: counts, proportions, topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(20, 0.5), 3)
    theta = rng.dirichlet([0.6, 0.4, 0.2], n_rows)
    totals = rng.negative_binomial(2, 0.01, n_rows)
    counts = np.array([rng.multinomial(n, p) for n, p in zip(totals, theta @ topics, strict=True)])
    return counts.astype(float), theta, topics


def test_topics_that_were_planted_are_found() -> None:
    counts, theta, topics = planted()
    model = LatentDirichletAllocation(n_components=3).fit(counts)
    likeness = np.corrcoef(np.vstack([topics, model.topics_]))[:3, 3:]
    rows, columns = linear_sum_assignment(-likeness)
    assert likeness[rows, columns].min() > 0.99
    found = model.embedding_.mean[:, columns]
    enough = counts.sum(axis=1) > 50
    assert np.abs(found - theta)[enough].mean() < 0.05
    np.testing.assert_allclose(model.embedding_.mean.sum(axis=1), 1)
    # The leading topic comes first: that of the most counts.
    shares = np.average(theta, axis=0, weights=counts.sum(axis=1))
    np.testing.assert_allclose(model.relevance_["data"], np.sort(shares)[::-1], atol=0.03)
    assert model.converged_
    again = LatentDirichletAllocation(n_components=3, max_iter=3).fit(counts)
    assert not again.converged_


def library_of(model: LatentDirichletAllocation, counts: Array, alpha: float) -> Any:
    """scikit-learn's model with the same topics, its rounds as long as ours."""
    library = decomposition.LatentDirichletAllocation(
        3, doc_topic_prior=alpha, max_iter=1, mean_change_tol=1e-10, max_doc_update_iter=10_000
    ).fit(counts)
    found = model._found.concentration.numpy()
    library.components_ = found
    library.exp_dirichlet_component_ = np.exp(digamma(found) - digamma(found.sum(1))[:, None])
    return library


def test_places_bound_and_steps_are_the_librarys() -> None:
    counts, _, _ = planted(100)
    model = LatentDirichletAllocation(n_components=3, topic_prior=0.2, tol=1e-10).fit(counts)
    library = library_of(model, counts, 0.2)
    np.testing.assert_allclose(model.embedding_.mean, library.transform(counts), atol=1e-6)
    np.testing.assert_allclose(
        model.topics_, library.components_ / library.components_.sum(1)[:, None]
    )
    Y = torch.as_tensor(counts)
    found, gamma = model._found, model._concentrations(Y)
    bound = found.bound(Y, gamma)
    assert bound == pytest.approx(library.score(counts), rel=1e-8)
    # The steps of the fit are shorter, and what they tell is a little below.
    assert bound - 200 < model.history_[-1].terms["bound given the totals"] < bound
    _, expected = library._e_step(counts, cal_sstats=True, random_init=False)
    followed = found.update_topics(Y, gamma).concentration.numpy()
    np.testing.assert_allclose(followed, 1 / 3 + expected, rtol=1e-4, atol=1e-6)


def test_every_step_raises_the_bound() -> None:
    counts, _, _ = planted(100)
    model = LatentDirichletAllocation(n_components=4, tol=1e-8).fit(counts)
    bounds = [step.terms["bound given the totals"] for step in model.history_]
    assert len(bounds) > 20
    assert (np.diff(bounds) > 0).all()
    assert model.converged_


def test_a_row_lies_at_the_optimum_of_its_bound() -> None:
    """Against a general optimiser of E log p(y, θ, z | topics) + entropy, z at its optimum."""
    counts, _, _ = planted(60)
    model = LatentDirichletAllocation(n_components=3, topic_prior=0.7).fit(counts)
    found = model._found.concentration.numpy()
    weights = np.exp(digamma(found) - digamma(found.sum(1))[:, None])

    def bound(log_gamma: Array, y: Array) -> float:
        gamma = np.exp(log_gamma)
        log_theta = digamma(gamma) - digamma(gamma.sum())
        fit = y @ np.log(np.exp(log_theta) @ weights)
        prior = (0.7 - gamma) @ log_theta
        return float(-(fit + prior + gammaln(gamma).sum() - gammaln(gamma.sum())))

    places = model.posterior(counts[:5])
    for y, mean, variance in zip(counts[:5], places.mean, places.variance, strict=True):
        start = np.log(0.7 + y.sum() * np.full(3, 1 / 3))
        best = np.exp(minimize(bound, start, args=(y,), tol=1e-12).x)
        np.testing.assert_allclose(mean, best / best.sum(), atol=1e-4)
        np.testing.assert_allclose(variance, dirichlet(best).var(), rtol=1e-2)


def test_a_point_is_read_as_proportions_and_decodes_to_the_mean_total() -> None:
    counts, _, _ = planted(80)
    counts[:, 3] = 0
    counts[:, 5] = 2
    model = LatentDirichletAllocation(n_components=3).fit(counts)
    varying = np.delete(np.arange(20), [3, 5])
    decoded = model.decode([[0.2, 0.5, 0.3], [0.4, 1.0, 0.6], [-1.0, 0.0, 0.0], [3.0, -1.0, -2.0]])
    total = counts[:, varying].sum(axis=1).mean()
    assert model.row_total_ == pytest.approx(total)
    np.testing.assert_allclose(decoded.mean[:, varying].sum(axis=1), total)
    np.testing.assert_allclose(decoded.mean[0], decoded.mean[1])
    np.testing.assert_allclose(
        decoded.mean[0, varying], total * np.array([0.2, 0.5, 0.3]) @ model.topics_
    )
    np.testing.assert_allclose(decoded.mean[2, varying], total * model.topics_.mean(axis=0))
    np.testing.assert_allclose(decoded.mean[3, varying], total * model.topics_[0])
    np.testing.assert_array_equal(decoded.mean[:, [3, 5]], np.tile([0, 2], (4, 1)))
    np.testing.assert_allclose(decoded.variance[:, varying], decoded.mean[:, varying])


def test_drawn_rows_are_counts_of_the_moments_that_are_decoded() -> None:
    model = LatentDirichletAllocation(n_components=3).fit(planted(80)[0])
    place = np.array([0.5, 0.3, 0.2])
    drawn = model._sample_rows(np.tile(place, (20_000, 1)), np.random.default_rng(0))
    decoded = model.decode([place])
    assert (drawn == np.round(drawn)).all()
    assert drawn.min() >= 0
    error = np.sqrt(decoded.variance[0] / 20_000)
    assert (np.abs(drawn.mean(axis=0) - decoded.mean[0]) < 5 * error + 1e-9).all()
    np.testing.assert_allclose(drawn.var(axis=0), decoded.variance[0], rtol=0.1, atol=0.05)


def test_a_row_of_nothing_has_the_prior_and_is_told() -> None:
    counts, _, _ = planted(80)
    counts[7] = 0
    model = LatentDirichletAllocation(n_components=3).fit(counts)
    assert "1 row holds no count in a column that varies: equal shares, the prior." in model.notes_
    np.testing.assert_allclose(model.embedding_.mean[7], 1 / 3)
    np.testing.assert_allclose(model.embedding_.variance[7], dirichlet([1 / 3] * 3).var())
