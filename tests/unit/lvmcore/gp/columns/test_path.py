"""The path to columns with likelihoods of their own, against exact results and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.gp.columns.decoder import ColumnDecoder
from lvmcore.gp.columns.path import ColumnPath
from lvmcore.likelihoods.catalogue import read_likelihoods
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.numerics.gaussians import LOG_2PI

TEXT = "gaussian*2, poisson, categorical(3)"


def _draws(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _likelihood(text: str) -> MixedLikelihood:
    terms = read_likelihoods(text)
    D = sum(term.n_features for term in terms)
    return MixedLikelihood(terms, torch.zeros(D).double(), torch.ones(D).double())


def _rows(n: int) -> Tensor:
    """Cells of ``TEXT``, [n, 6]."""
    numbers, counts = _draws(1, n, 2), _draws(2, n, 1).abs().mul(3).floor()
    levels = torch.eye(3).double()[torch.arange(n) % 3]
    return torch.cat([numbers, counts, levels], 1)


def _fitted_path(text: str = TEXT, n: int = 40) -> tuple[ColumnPath, Tensor, Tensor]:
    X, Y = _draws(3, n, 2), _rows(n)[:, : len(_likelihood(text).mean)]
    path = ColumnPath(_draws(4, 7, 2), _likelihood(text))
    path.likelihood.start(Y, None)
    for _ in range(30):
        path.expected_log_likelihood(X[None], Y, None, 1.0)
        path.natural_gradient_step(0.5)
    return path, X, Y


def test_a_natural_gradient_step_of_gaussian_columns_is_the_exact_posterior() -> None:
    n, noise = 12, 0.3
    X, Y = _draws(3, n, 2), _draws(5, n, 2)
    path = ColumnPath(X.clone(), _likelihood("gaussian*2"))
    path.expected_log_likelihood(X[None], Y, None, 1.0)
    path.natural_gradient_step(1.0)
    new = _draws(6, 5, 2)
    mean, variance = path.latent_function(new)
    kernel, linear = path.kernel, path.slopes.square()
    # with an inducing input at every row the sparse process is the exact one
    A = kernel(X, X) + (X * linear) @ X.T + (noise + 1e-4) * torch.eye(n)
    k = kernel(new, X) + (new * linear) @ X.T
    wanted = k @ torch.linalg.solve(A, Y)
    prior = kernel.variance + new.square() @ linear
    spread = prior - (k * torch.linalg.solve(A, k.T).T).sum(1)
    np.testing.assert_allclose(mean.detach(), wanted.detach(), atol=1e-4)
    np.testing.assert_allclose(variance.detach(), spread.detach()[:, None].expand(-1, 2), atol=1e-4)
    # and the bound at that q is the log marginal likelihood
    bound = path.expected_log_likelihood(X[None], Y, None, 1.0) - path.kl()
    evidence = -0.5 * (
        (Y * torch.linalg.solve(A, Y)).sum() + 2 * torch.logdet(A) + Y.numel() * LOG_2PI
    )
    assert float(bound.detach()) == pytest.approx(float(evidence.detach()), abs=1e-3)


def test_natural_gradients_reach_a_stationary_point_of_q() -> None:
    path, X, Y = _fitted_path()
    for _ in range(60):
        path.expected_log_likelihood(X[None], Y, None, 1.0)
        path.natural_gradient_step(0.3)
    mean, R = (part.clone() for part in path.moments())
    cov = (R.mT @ R).requires_grad_()
    mean.requires_grad_()
    a = path.project(X).detach()
    # the bound as a plain function of the means and covariances of q(V)
    spread = torch.einsum("mn,fmk,kn->nf", a, cov, a)
    left = (path.kernel.variance - a[:7].square().sum(0)).detach()[:, None]
    cells = path.likelihood.expected_log(Y, None, a.T @ mean.T, left + spread)
    kl = (
        0.5 * (cov.diagonal(dim1=1, dim2=2).sum() + mean.square().sum() - mean.numel())
        - 0.5 * torch.logdet(cov).sum()
    )
    slopes = torch.autograd.grad(cells.sum() - kl, (mean, cov))
    assert all(float(slope.abs().max()) < 5e-3 for slope in slopes)


def test_missing_cells_drop_out_and_a_category_counts_once() -> None:
    path, X, Y = _fitted_path()
    observed = torch.ones_like(Y, dtype=torch.bool)
    observed[4, 3:] = False
    observed[7, 0] = False
    whole, fewer = (
        float(path.expected_log_likelihood(X[None], Y, mask, 1.0).detach())
        for mask in (None, observed)
    )
    mean, variance = path.latent_function(X)
    alone = path.likelihood
    by_cell = []
    for row, kept in ((4, torch.arange(6) >= 3), (7, torch.arange(6) == 0)):
        mask = kept.repeat(1, 1)
        some = alone.expected_log(Y[[row]], mask, mean[[row]], variance[[row]])
        by_cell.append(float(some.detach()))
    assert whole - fewer == pytest.approx(sum(by_cell), abs=0.2)  # draws depend on the position
    changed = Y.clone()
    changed[~observed] = 0.0
    again = float(path.expected_log_likelihood(X[None], changed, observed, 1.0).detach())
    assert again == pytest.approx(fewer, abs=1e-9)


def test_decoder_keeps_means_and_nearly_the_variances() -> None:
    path, _, _ = _fitted_path()
    decoder, new = path.column_decoder(), _draws(8, 30, 2)
    mean, variance = (part.detach() for part in path.latent_function(new))
    g, spread = decoder.functions(new)
    np.testing.assert_allclose(g, mean, atol=1e-6)
    np.testing.assert_allclose(spread.sqrt(), variance.sqrt(), rtol=0.1, atol=0.02)


def test_decoder_of_one_function_is_exact() -> None:
    path = _fitted_path("gaussian")[0]
    decoder, new = path.column_decoder(), _draws(8, 30, 2)
    variance = path.latent_function(new)[1].detach()
    np.testing.assert_allclose(decoder.functions(new)[1], variance, rtol=1e-5, atol=1e-7)


def test_decoder_of_a_file_predicts_the_same() -> None:
    decoder, new = _fitted_path()[0].column_decoder(), _draws(8, 9, 2)
    again = ColumnDecoder.from_arrays(TEXT, decoder.arrays(), torch.zeros(1).double())
    for one, other in zip(decoder.decode(new), again.decode(new), strict=True):
        np.testing.assert_array_equal(one, other)
    rng = [np.random.default_rng(2) for _ in range(2)]
    np.testing.assert_array_equal(decoder.draw(new, rng[0]), again.draw(new, rng[1]))


def test_moments_under_a_position_are_those_of_draws() -> None:
    decoder = _fitted_path()[0].column_decoder()
    mean, variance = _draws(9, 3, 2), torch.full((3, 2), 0.2).double()
    X = mean + variance.sqrt() * _draws(10, 20_000, 3, 2)
    centre, spread, own = (part.reshape(20_000, 3, -1) for part in decoder.decode(X.reshape(-1, 2)))
    wanted = centre.mean(0), spread.mean(0) + centre.var(0), own.mean(0)
    for found, brute in zip(decoder.moments(mean, variance), wanted, strict=True):
        np.testing.assert_allclose(found, brute, rtol=0.15, atol=0.03)


def test_probabilities_of_levels_add_up_and_log_density_is_that_of_cells() -> None:
    decoder, X = _fitted_path()[0].column_decoder(), _draws(8, 6, 2)
    p = decoder.decode(X)[0][:, 3:]
    np.testing.assert_allclose(p.sum(1), np.ones(6), atol=1e-9)
    only = torch.full((3, 6), torch.nan).double()
    only[:, 3:] = torch.eye(3)
    found = decoder.log_density(only, X[:1].expand(3, -1)[None])[0]
    np.testing.assert_allclose(found.exp(), p[0], atol=1e-6)


def test_metric_is_the_square_of_the_slopes_of_the_means() -> None:
    decoder, x, step = _fitted_path()[0].column_decoder(), _draws(8, 1, 2), 1e-5
    steps = step * torch.eye(2).double()
    J = torch.stack(
        [(decoder.decode(x + s)[0] - decoder.decode(x - s)[0])[0] / (2 * step) for s in steps], 1
    )
    np.testing.assert_allclose(decoder.metric(x)[0], J.T @ J, rtol=1e-5, atol=1e-7)


def test_likelihood_of_placed_rows_has_two_derivatives() -> None:
    path, X, Y = _fitted_path()
    rows = path.column_decoder().observed_rows(
        torch.where(_draws(11, *Y.shape) > 1, torch.nan, Y)[:2]
    )
    at = torch.arange(2)
    mean = X[:2].clone().requires_grad_()
    variance = torch.full((2, 2), 0.3).double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda m, v: rows.expected_log_density(at, m, v), (mean, variance)
    )
    assert torch.autograd.gradgradcheck(
        lambda m, v: rows.expected_log_density(at, m, v), (mean, variance)
    )
