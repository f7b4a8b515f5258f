"""A fit by random features in batches: what a step estimates, and where it puts its rows."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from lvmcore import SRFLVM
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.paths import LatentRows
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.gaussian_term import GaussianTerm
from lvmcore.random_features.minibatch_objective import MinibatchRandomFeatureObjective
from lvmcore.random_features.objective import RandomFeatureObjective
from lvmcore.random_features.sampled_spectrum import SampledSpectrum
from lvmcore.training.checkpoint import Checkpoint

N, D, R = 240, 5, 8


def problem(n_rows: int = N) -> FitProblem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 2))
    Y = np.sin(X @ rng.standard_normal((2, D))) + 0.3 * rng.standard_normal((n_rows, D))
    Y = (Y - Y.mean(0)) / Y.std(0)
    table = InMemoryRows(torch.as_tensor(Y))
    return FitProblem(table, (), 2, torch.Generator().manual_seed(0), None)


def fits(size: int) -> tuple[MinibatchRandomFeatureObjective, RandomFeatureObjective]:
    """By batches, and by all rows, of the same parts."""
    found = problem()
    X = torch.as_tensor(np.random.default_rng(0).standard_normal((N, 2)))
    rows = LatentRows(X, 1e-12)  # no chance in the places
    spectrum = SampledSpectrum(R // 2, 2, 2, found.table.like, found.generator)
    spectrum.log_sd.data.fill_(-20.0)  # nor in the spectral points
    columns = GaussianTerm(found, n_features=R, shared=True)
    parts: Any = (rows, spectrum, columns, found.generator)
    return MinibatchRandomFeatureObjective(*parts, size), RandomFeatureObjective(*parts)


def test_batches_estimate_a_bound_below_that_of_all_rows_and_near_it_when_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lvmcore.random_features.minibatch_objective.POSITION_STEPS", 0)
    gaps, errors = [], []
    for size in (40, 200):
        batched, whole = fits(size)
        with torch.no_grad():
            batched.columns.log_noise.fill_(-1.0)
            exact = float(whole.terms()["data fit"])
            found = [float(batched.batch_terms()["data fit"]) for _ in range(200)]
        gaps.append((exact - np.mean(found)) / (N * D))
        errors.append(np.std(found) / (len(found) ** 0.5 * N * D))
    assert gaps[0] > gaps[1] + 3 * errors[0]
    assert 3 * errors[1] < gaps[1] < 0.1


def test_the_estimate_is_the_bound_at_the_weights_of_the_other_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the divergence and the expectation of every row and column, written out."""
    monkeypatch.setattr("lvmcore.random_features.minibatch_objective.POSITION_STEPS", 0)
    batched, _ = fits(60)
    with torch.no_grad():
        found = float(batched.batch_terms()["data fit"])
        batch = batched.batches.order[:60]
        features = batched.columns.features(batched.spectrum.points())
        Y, noise = batched.columns.Y, float(batched.columns.noise[0])
        total = 0.0
        for one, other in ((batch[:30], batch[30:]), (batch[30:], batch[:30])):
            P = features(batched.rows.mean[one])
            precision = N / 30 * P.T @ P / noise + torch.eye(R).double()
            cov = torch.linalg.inv(precision)
            prior = torch.distributions.MultivariateNormal(torch.zeros(R).double(), torch.eye(R))
            for d in range(D):
                m = cov @ (N / 30 * P.T @ Y[one, d]) / noise
                q = torch.distributions.MultivariateNormal(m, covariance_matrix=cov)
                total -= float(torch.distributions.kl_divergence(q, prior))
                F = features(batched.rows.mean[other])
                square = (Y[other, d] - F @ m).square() + ((F @ cov) * F).sum(1)
                cells = np.log(2 * np.pi * noise) + square / noise
                total -= 0.5 * N / 30 * float(cells.sum())
    assert found == pytest.approx(0.5 * total, rel=1e-5)


def test_all_rows_give_the_same_bound_and_decoder_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lvmcore.random_features.fourier_sums.BLOCK_ROWS", 50)
    batched, whole = fits(60)
    assert float(batched.terms()["data fit"]) == pytest.approx(
        float(whole.terms()["data fit"].detach()), rel=1e-6
    )
    new = torch.as_tensor(np.random.default_rng(1).standard_normal((7, 2)))
    for one, other in zip(batched.decoder().decode(new), whole.decoder().decode(new), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_steps_bring_rows_to_the_optimum_that_placing_them_finds() -> None:
    batched, _ = fits(60)
    decoder: Any = batched.decoder()
    features = batched.columns.features(batched.spectrum.points())
    rows = torch.arange(N)
    with torch.no_grad():
        q = batched._weights(batched._half_sums(rows, features))
        for _ in range(60):
            batched._update_positions(rows, features, q)
    placed = decoder.complete_rows(batched.columns.Y)

    def bound(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        kl = 0.5 * (variance + mean.square() - variance.log() - 1).sum(1)
        return placed.expected_log_density(rows, mean, variance) - kl

    with torch.no_grad():
        here = bound(batched.rows.mean, batched.rows.variance)
        mean, variance = batched.rows.mean, batched.rows.variance
        for step in (0.5, -0.5):
            for dim in range(2):
                away, wider = mean.clone(), variance.clone()
                away[:, dim] += step * variance[:, dim].sqrt()
                wider[:, dim] *= math.exp(step)
                assert float((here - bound(away, variance)).mean()) > 0
                assert float((here - bound(mean, wider)).mean()) > 0


@pytest.mark.slow
def test_a_map_by_batches_is_as_good_as_one_by_all_rows() -> None:
    """A curve in many columns, its order told by the map."""
    rng = np.random.default_rng(0)
    t = rng.random(600)
    waves = np.sin(np.outer(t, rng.uniform(2, 8, 12)) + rng.uniform(0, 6, 12))
    Y = waves + 0.1 * rng.standard_normal(waves.shape)
    settings: dict[str, Any] = {"n_features": 20, "max_iter": 200}
    whole, batched = SRFLVM(**settings).fit(Y), SRFLVM(batch_size=200, **settings).fit(Y)

    def left(model: SRFLVM) -> float:
        return float(np.square(model.decode(model.transform(Y)).mean - waves).mean())

    assert left(batched) < 1.3 * left(whole) + 1e-3
    assert abs(batched.elbo_ - whole.elbo_) < 0.05 * Y.size


def test_a_fit_that_goes_on_ends_as_one_never_stopped(tmp_path: Any) -> None:
    Y = problem().table.take(slice(None))[0].numpy()

    def fit(callback: Any = None) -> SRFLVM:
        model = SRFLVM(n_features=R, max_iter=30, batch_size=60)
        kept = Checkpoint(tmp_path / "fit", seconds=0.0)
        return model._fit_from(Y, None, callback=callback, checkpoint=kept)

    fit(lambda step: step.iteration == 12)
    resumed = fit()
    whole = SRFLVM(n_features=R, max_iter=30, batch_size=60).fit(Y)
    np.testing.assert_array_equal(resumed.embedding_.mean, whole.embedding_.mean)
    assert resumed.elbo_ == whole.elbo_


@pytest.mark.parametrize("settings", [{"noise": "column"}, {"covariance": "full"}])
def test_what_cannot_go_by_batches_takes_all_rows(settings: dict[str, Any]) -> None:
    Y = problem(60).table.take(slice(None))[0].numpy()
    one = SRFLVM(n_features=R, max_iter=5, batch_size=40, **settings).fit(Y)
    assert any("all 60 rows" in note for note in one.notes_)
    other = SRFLVM(n_features=R, max_iter=5, **settings).fit(Y)
    assert one.elbo_ == other.elbo_
