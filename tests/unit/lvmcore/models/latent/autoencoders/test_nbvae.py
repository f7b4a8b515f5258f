"""The autoencoder of counts: its evidence, its moments, and tables that were planted."""

from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import nbinom
from torch import Tensor

from lvmcore import NBVAE, VAE, load
from lvmcore.base.marginal_likelihood import log_marginal
from lvmcore.likelihoods.polya_gamma import MAX_SIZE, bounded_size

Array = NDArray[np.float64]
COLUMNS = 15
DISPERSION = np.random.default_rng(6).uniform(0.7, 6.0, COLUMNS)


def planted(n_rows: int, seed: int) -> Array:
    """Counts about a curved sheet, each column with a dispersion of its own."""
    maps = np.random.default_rng(5)
    line, curve = maps.normal(size=(2, 2, COLUMNS))
    base = maps.normal(1.5, 1.0, COLUMNS)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 2))
    mean = np.exp(base + 0.5 * x @ line + 0.7 * np.tanh(x @ curve))
    return rng.negative_binomial(DISPERSION, DISPERSION / (DISPERSION + mean)).astype(float)


@cache
def fitted() -> NBVAE:
    """A fit to share, so leave it as it is."""
    return NBVAE(n_components=2, max_iter=400).fit(planted(600, 0))


@pytest.mark.slow
def test_the_bound_lies_below_the_evidence() -> None:
    model, Y = fitted(), planted(600, 0)
    evidence = model.score_samples(Y).sum()
    assert evidence - 0.5 * len(Y) < model.elbo_ < evidence
    unlike = planted(600, 1)[:, ::-1]
    assert model.score(unlike) < model.score(planted(600, 1)) - 10


def test_the_evidence_is_the_integral_over_the_map() -> None:
    """Against quadrature of scipy's negative binomial at decoded means."""
    Y = planted(80, 2)[:, :4]
    model = NBVAE(n_components=1, max_iter=200).fit(Y)
    places = np.linspace(-7, 7, 2001)
    mean, r = model.decode(places[:, None]).mean, model.dispersion_
    given = nbinom.logpmf(Y[:, None], r, r / (r + mean)).sum(axis=2)
    prior = -0.5 * (places**2 + np.log(2 * np.pi)) + np.log(places[1] - places[0])
    expected = logsumexp(given + prior, axis=1)
    np.testing.assert_allclose(model.score_samples(Y), expected, atol=0.05)
    assert np.abs(model.score_samples(Y) - expected).mean() < 0.01


@pytest.mark.slow
def test_decoded_moments_are_those_of_drawn_rows() -> None:
    model, n = fitted(), 40_000
    place = np.array([0.6, -0.4])
    drawn = model._sample_rows(np.tile(place, (n, 1)), np.random.default_rng(0))
    decoded = model.decode([place])
    assert (drawn == np.round(drawn)).all()
    error = np.sqrt(decoded.variance[0] / n)
    assert (np.abs(drawn.mean(axis=0) - decoded.mean[0]) < 5 * error).all()
    np.testing.assert_allclose(drawn.var(axis=0), decoded.variance[0], rtol=0.15)
    np.testing.assert_allclose(decoded.variance, decoded.noise_variance)
    r, mean = model.dispersion_, decoded.mean[0]
    np.testing.assert_allclose(decoded.variance[0], mean + mean**2 / r)


@pytest.mark.slow
def test_dispersions_that_were_planted_are_found() -> None:
    found = fitted().dispersion_
    assert np.corrcoef(np.log(found), np.log(DISPERSION))[0, 1] > 0.9
    assert (np.abs(np.log(found / DISPERSION)) < np.log(2)).all()


def test_the_fit_starts_with_the_means_of_the_columns() -> None:
    Y = planted(300, 0)
    model = NBVAE(n_components=2, max_iter=1).fit(Y)
    np.testing.assert_allclose(
        model.decode(model.embedding_.mean).mean.mean(axis=0), Y.mean(axis=0), rtol=0.02
    )


@pytest.mark.slow
def test_it_beats_the_gaussian_autoencoder_of_logarithms_on_unseen_counts() -> None:
    """That one's density made a probability of counts: of log(1 + y ± ½), integrated over x."""
    unseen = planted(400, 1)
    gaussian = VAE(n_components=2).fit(np.log1p(planted(600, 0)))
    standard = gaussian.standardiser_
    centre, scale = torch.as_tensor(standard.mean), torch.as_tensor(standard.scale)
    sd = torch.as_tensor(gaussian.noise_variance_).sqrt()

    def given(Y: Tensor, X: Tensor) -> Tensor:
        counts = torch.expm1(Y * scale + centre).round()
        mean = gaussian._network(X.reshape(-1, 2)).reshape(*X.shape[:2], -1)
        upper = ((torch.log1p(counts + 0.5) - centre) / scale - mean) / sd
        lower = ((torch.log1p((counts - 0.5).clamp_min(0)) - centre) / scale - mean) / sd
        lower = torch.where(counts == 0, -torch.inf, lower)
        # In the tail that is far from 1, where digits are.
        right = lower > 0
        upper, lower = torch.where(right, -lower, upper), torch.where(right, -upper, lower)
        log_upper, log_lower = torch.special.log_ndtr(upper), torch.special.log_ndtr(lower)
        return (log_upper + torch.log1p(-(log_lower - log_upper).exp())).sum(-1)

    Y = torch.as_tensor(standard.transform(np.log1p(unseen)))
    with torch.no_grad():
        theirs = float(log_marginal(given, Y, *gaussian._posterior(Y)).mean())
    assert fitted().score(unseen) > theirs + 0.2


@pytest.mark.slow
def test_counts_without_overdispersion_are_nearly_poisson() -> None:
    rng = np.random.default_rng(3)
    Y = rng.poisson(np.exp(1.0 + 0.5 * rng.normal(size=(500, 1)) @ np.ones((1, 6)))).astype(float)
    assert (NBVAE(n_components=1).fit(Y).dispersion_ > 15).all()


def test_a_dispersion_stays_below_the_largest() -> None:
    logs = torch.tensor([-3.0, 0.0, 3.0, 10.0, 300.0], dtype=torch.float64)
    found = bounded_size(logs)
    assert (found <= MAX_SIZE).all()
    assert (found.diff() > 0).all()
    torch.testing.assert_close(found[:3], logs[:3].exp(), rtol=0.03, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_count_of_a_billion_is_taken(dtype: str, tmp_path: object) -> None:
    Y = planted(60, 0)
    Y[7, 3] = 1e9
    Y[9] = 0
    model = NBVAE(n_components=2, max_iter=100, dtype=dtype).fit(Y)
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.score_samples(Y)).all()
    path = f"{tmp_path}/model.safetensors"
    model.save(path)
    np.testing.assert_array_equal(load(path).score_samples(Y), model.score_samples(Y))
