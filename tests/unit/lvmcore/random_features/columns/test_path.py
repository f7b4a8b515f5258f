"""The path from random features to columns, against exact results, Monte Carlo and differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.gp.columns.path import ColumnPath
from lvmcore.kernels.expression_kernel import dimensions_kernel
from lvmcore.likelihoods.catalogue import read_likelihoods
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.random_features.columns.decoder import FeatureColumnDecoder
from lvmcore.random_features.columns.path import FeatureColumnPath
from lvmcore.random_features.kernel_spectrum import KernelSpectrum
from lvmcore.random_features.sampled_spectrum import SampledSpectrum

TEXT = "gaussian*2, poisson, categorical(3)"
LIKE = torch.zeros(1).double()


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _draws(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=_generator(seed), dtype=torch.float64)


def _likelihood(text: str) -> MixedLikelihood:
    D = sum(term.n_features for term in read_likelihoods(text))
    return MixedLikelihood(read_likelihoods(text), torch.zeros(D).double(), torch.ones(D).double())


def _rows(n: int) -> Tensor:
    """Cells of ``TEXT``, [n, 6]."""
    numbers, counts = _draws(1, n, 2), _draws(2, n, 1).abs().mul(3).floor()
    return torch.cat([numbers, counts, torch.eye(3).double()[torch.arange(n) % 3]], 1)


def _rbf_path(text: str, n_points: int) -> FeatureColumnPath:
    spectrum = KernelSpectrum(dimensions_kernel("rbf", 2), n_points, 2, LIKE, _generator(0))
    return FeatureColumnPath(spectrum, _likelihood(text))


def _learned_path(text: str = TEXT) -> FeatureColumnPath:
    return FeatureColumnPath(SampledSpectrum(8, 2, 3, LIKE, _generator(0)), _likelihood(text))


def _follow(path: FeatureColumnPath | ColumnPath, X: Tensor, Y: Tensor, steps: int = 40) -> None:
    for _ in range(steps):
        path.expected_log_likelihood(X[None], Y, None, 1.0)
        path.natural_gradient_step(0.5)


def test_one_step_of_gaussian_columns_is_exact_and_the_bound_the_evidence() -> None:
    X, Y, noise = _draws(3, 12, 2), _draws(5, 12, 2), 0.3
    path = _rbf_path("gaussian*2", 20)
    path.expected_log_likelihood(X[None], Y, None, 1.0)
    path.natural_gradient_step(1.0)
    Phi = path.project(X).T
    A = Phi @ Phi.T + (noise + 1e-4) * torch.eye(12)
    bound = path.expected_log_likelihood(X[None], Y, None, 1.0)
    bound = bound + torch.stack([term.value(None) for term in path.divergences()]).sum()
    evidence = -0.5 * (
        (Y * torch.linalg.solve(A, Y)).sum() + 2 * torch.logdet(A) + Y.numel() * LOG_2PI
    )
    assert float(bound.detach()) == pytest.approx(float(evidence.detach()), abs=1e-3)


def test_many_features_of_an_rbf_kernel_are_the_path_with_inducing_inputs() -> None:
    X, Y, new = _draws(3, 12, 2), _rows(12), _draws(6, 15, 2)
    many = _rbf_path(TEXT, 150)
    exact = ColumnPath(X.clone(), _likelihood(TEXT))
    kernel = many.spectrum.frequencies.kernel  # type: ignore[union-attr]
    with torch.no_grad():
        exact.log_lengthscales.copy_(-0.5 * kernel.relevance.log())  # type: ignore[operator, union-attr]
        exact.log_slopes.fill_(-20.0)  # SRFLVM has no linear functions
        limit = exact.rbf.variance
    for path in (many, exact):
        path.likelihood.start(Y, None)
        _follow(path, X, Y, 15)
    assert float(limit) == pytest.approx(1, abs=0.05)
    one, other = many.column_decoder().decode(new), exact.column_decoder().decode(new)
    np.testing.assert_allclose(one[0], other[0], atol=0.1)
    np.testing.assert_allclose(one[1].sqrt(), other[1].sqrt(), rtol=0.12, atol=0.02)


@pytest.mark.slow
def test_the_bound_over_draws_is_below_monte_carlo_evidence() -> None:
    X, Y = _draws(3, 3, 2), _rows(3)[:, 2:3]
    path = _learned_path("poisson")
    _follow(path, X, Y, 60)
    with torch.no_grad():
        for term in path.spectrum.parameters():
            term.requires_grad_(requires_grad=False)
        fits = [float(path.expected_log_likelihood(X[None], Y, None, 1.0)) for _ in range(400)]
        # log E p(Y | X, W, h) over q(W) and the prior of h: what the data term less KL(h) bounds
        logs = []
        for _ in range(400):
            a = path.project(X)
            g = a.T @ _draws(1000 * len(logs) + 7, a.shape[0], 50)
            cells = [
                path.likelihood.expected_log(Y, None, one[:, None], torch.full_like(Y, 1e-12)).sum()
                for one in g.T
            ]
            logs.append(torch.logsumexp(torch.stack(cells), 0) - np.log(50))
            path.expected_log_likelihood(X[None], Y, None, 1.0)
        evidence = torch.stack(logs).mean()
    bound = np.mean(fits) - float(path.kl())
    assert bound < float(evidence) + 0.05
    assert bound > float(evidence) - 3


def test_gradients_are_those_of_finite_differences() -> None:
    # the expectation of a category is of draws, and its gradient another estimate
    X, Y = _draws(3, 6, 2), _rows(6)[:, :3]
    path = _learned_path("gaussian*2, poisson")
    path.likelihood.start(Y, None)
    _follow(path, X, Y, 10)
    path.fix_features()
    spectrum = path.spectrum

    def bound() -> Tensor:
        fit = path.expected_log_likelihood(X[None], Y, None, 1.0)
        return fit + torch.stack([term.value(None) for term in path.divergences()]).sum()

    parameters = [*spectrum.parameters(), *path.likelihood.parameters()]
    slopes = torch.autograd.grad(bound(), parameters, allow_unused=True)
    step = 1e-5
    for parameter, slope in zip(parameters, slopes, strict=True):
        flat = parameter.data.view(-1)
        for i in range(0, len(flat), max(1, len(flat) // 3)):
            kept, values = float(flat[i]), []
            for sign in (1, -1):
                flat[i] = kept + sign * step
                values.append(float(bound().detach()))
            flat[i] = kept
            found = 0.0 if slope is None else float(slope.reshape(-1)[i])
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(found, rel=1e-4, abs=1e-5)


def test_decoder_predicts_as_the_path_and_a_file_the_same() -> None:
    X, Y, new = _draws(3, 40, 2), _rows(40), _draws(8, 9, 2)
    path = _learned_path()
    path.likelihood.start(Y, None)
    path.fix_features()
    _follow(path, X, Y)
    decoder = path.column_decoder()
    mean, variance = (part.detach() for part in path.values(path.project(new)))
    g, spread = decoder.functions(new)
    np.testing.assert_allclose(g, mean, atol=1e-6)
    np.testing.assert_allclose(spread.sqrt(), variance.sqrt(), rtol=0.2, atol=0.03)
    again = FeatureColumnDecoder.from_arrays(TEXT, decoder.arrays(), LIKE)
    for one, other in zip(decoder.decode(new), again.decode(new), strict=True):
        np.testing.assert_array_equal(one, other)
