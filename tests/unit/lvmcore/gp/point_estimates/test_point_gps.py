"""Paths, priors, positions and placements of point estimates, each by another route."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm
from torch import Tensor

from lvmcore.gp.point_estimates.class_scores import largest_probability
from lvmcore.gp.point_estimates.marginal_likelihood import Approximation, exact_log_likelihood
from lvmcore.gp.point_estimates.objective import scatter_ratio
from lvmcore.gp.point_estimates.paths import PointPath, column_groups, label_group
from lvmcore.gp.point_estimates.placement import (
    component_weights,
    decode_gaussians,
    gaussian_factors,
    place_rows,
)
from lvmcore.gp.point_estimates.positions import FreePositions, KernelPositions, NetworkPositions
from lvmcore.kernels.expression import KernelTerm
from tests.unit.lvmcore.small_problems import Small, small_problem


@pytest.fixture
def p() -> Small:
    return small_problem(N=14, D=4, Q=2, M=6)


def holed(p: Small) -> Tensor:
    observed = torch.as_tensor(np.random.default_rng(2).random(p.Y.shape) > 0.3)
    observed[:2] = True
    return observed


def path_of(p: Small, how: Approximation, observed: Tensor | None = None) -> PointPath:
    return PointPath(column_groups(p.Y, observed), how, p.Z)


def test_missing_cells_drop_out_column_by_column(p: Small) -> None:
    observed = holed(p)
    path = path_of(p, "exact", observed)
    with torch.no_grad():
        kernel, expected = path.kernel, 0.0
        for d in range(4):
            rows = observed[:, d]
            K = kernel(p.mean[rows], p.mean[rows])
            expected += float(exact_log_likelihood(K, path.noise, p.Y[rows][:, d : d + 1]))
        assert float(path.log_likelihood(p.mean)) == pytest.approx(expected, rel=1e-10)
    assert path.count == int(observed.sum())


@pytest.mark.parametrize("how", ["exact", "vfe", "fitc"])
def test_the_decoder_with_missing_cells_is_that_of_each_column(
    how: Approximation, p: Small
) -> None:
    observed = holed(p)
    decoder = path_of(p, how, observed).decoder(p.mean)
    mean, variance = decoder.predict(p.Z)
    for d in range(4):
        rows = observed[:, d]
        alone = PointPath(column_groups(p.Y[rows][:, d : d + 1], None), how, p.Z)
        one = alone.decoder(p.mean[rows]).predict(p.Z)
        torch.testing.assert_close(mean[:, d], one[0][:, 0], atol=1e-8, rtol=1e-6)
        torch.testing.assert_close(variance[:, d], one[1][:, 0], atol=1e-7, rtol=1e-6)


def test_a_linear_path_with_unit_inducing_inputs_is_exact(p: Small) -> None:
    linear, groups = KernelTerm("linear"), column_groups(p.Y, None)
    exact = PointPath(groups, "exact", p.Z, linear)
    by_rank = PointPath(groups, "dtc", torch.eye(2).double(), linear, moves=False)
    with torch.no_grad():
        found, expected = by_rank.log_likelihood(p.mean), exact.log_likelihood(p.mean)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
    for ours, theirs in zip(
        by_rank.decoder(p.mean).predict(p.Z), exact.decoder(p.mean).predict(p.Z), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    assert not any(one.requires_grad for one in (by_rank.points, exact.points))


def test_labels_are_centred_one_hot_columns_of_the_labelled_rows() -> None:
    group = label_group(np.array([0, -1, 2, 2]), 3, torch.zeros(1))
    assert group.rows is not None
    assert group.rows.tolist() == [0, 2, 3]
    expected = np.array([[2, 0, -2], [-1, 0, 1], [-1, 0, 1]]) / 3
    np.testing.assert_allclose(group.values.numpy(), expected)


def test_positions_have_mean_0_and_sd_1_and_start_near_the_initial_map(p: Small) -> None:
    inputs, generator = p.Y.double(), torch.Generator().manual_seed(0)
    for positions in (
        FreePositions(3 * p.mean + 1),
        KernelPositions(inputs, p.mean),
        NetworkPositions(inputs, p.mean, 8, generator),
    ):
        X = positions()
        torch.testing.assert_close(X.mean(0), torch.zeros(2).double(), atol=1e-12, rtol=0)
        torch.testing.assert_close(X.var(0, correction=0), torch.ones(2).double())
        for q in range(2):
            assert np.corrcoef(X[:, q].detach(), p.mean[:, q])[0, 1] > 0.5
        assert set(positions.scales()) == set(positions.parameters())


def test_a_fitted_row_map_gives_the_positions_of_the_rows(p: Small) -> None:
    inputs, generator = p.Y.double(), torch.Generator().manual_seed(0)
    for positions in (
        KernelPositions(inputs, p.mean),
        NetworkPositions(inputs, p.mean, 8, generator),
    ):
        centre, sd = positions.moments()
        found = (positions.row_map()(inputs) - centre) / sd
        torch.testing.assert_close(found, positions(), atol=1e-6, rtol=1e-6)


def test_the_scatter_ratio_is_that_of_loops_and_of_linear_discriminants() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=40)
    X = rng.normal(size=(40, 2)) + 2 * np.eye(3, 2)[codes]
    within, between = np.zeros((2, 2)), np.zeros((2, 2))
    for c in range(3):
        rows = X[codes == c]
        away = rows - rows.mean(0)
        within += away.T @ away / 40
        middle = rows.mean(0) - X.mean(0)
        between += len(rows) / 40 * np.outer(middle, middle)
    within += 1e-3 * np.diag(within).mean() * np.eye(2)
    expected = np.trace(np.linalg.inv(within) @ between)
    at = torch.as_tensor(X).requires_grad_()
    found = float(scatter_ratio(at, torch.as_tensor(codes)).detach())
    assert found == pytest.approx(expected, rel=1e-9)
    assert torch.autograd.gradcheck(lambda x: scatter_ratio(x, torch.as_tensor(codes)), [at])


def test_probabilities_of_the_largest_score_are_those_of_draws() -> None:
    mean = torch.tensor([[0.2, 0.1, -0.4], [1.0, -1.0, 0.9]], dtype=torch.float64)
    variance = torch.tensor([0.3, 0.05], dtype=torch.float64)
    noise = np.random.default_rng(0).normal(size=(200_000, 1, 3))
    scores = mean.numpy() + np.sqrt(variance.numpy())[:, None] * noise
    expected = np.stack([(scores.argmax(2) == c).mean(0) for c in range(3)], 1)
    found = largest_probability(mean, variance)
    np.testing.assert_allclose(found.numpy(), expected, atol=5e-3)
    two = largest_probability(mean[:, :2], variance)
    away = (mean[:, 0] - mean[:, 1]) / (2 * variance).sqrt()
    np.testing.assert_allclose(two[:, 0].numpy(), norm.cdf(away.numpy()), atol=1e-4)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_row_is_placed_at_the_optimum_that_scipy_finds(p: Small, gaps: bool) -> None:
    decoder = path_of(p, "exact").decoder(p.mean)
    Y = p.Y[:5] + 0.1
    if gaps:
        Y = torch.where(holed(p)[2:7], Y, torch.nan)
    placed = place_rows(decoder, Y, p.mean)
    for y, x, value in zip(Y.numpy(), placed.mean[:, 0].numpy(), placed.value[:, 0], strict=True):
        seen = ~np.isnan(y)

        def loss(at: np.ndarray, y: np.ndarray = y, seen: np.ndarray = seen) -> float:
            mean, variance, _ = (part.numpy()[0] for part in decoder.decode(torch.tensor(at[None])))
            cells = norm.logpdf(y[seen], mean[seen], np.sqrt(variance[seen]))
            return float(-cells.sum() - norm.logpdf(at).sum())

        best = minimize(loss, x, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
        np.testing.assert_allclose(x, best.x, atol=1e-4)
        assert float(value) == pytest.approx(-best.fun, abs=1e-6)


def test_a_row_without_a_cell_has_the_prior(p: Small) -> None:
    decoder = path_of(p, "exact").decoder(p.mean)
    Y = torch.full((1, 4), torch.nan, dtype=torch.float64)
    placed = place_rows(decoder, Y, p.mean)
    assert float(placed.mean.abs().max()) == 0
    factor = gaussian_factors(decoder, Y, placed.mean[:, 0])
    torch.testing.assert_close(factor[0], torch.eye(2).double())
    many = factor[:, None].expand(-1, 3, -1, -1)
    assert component_weights(placed, many).tolist() == [[1, 0, 0]]


def test_the_covariance_about_an_optimum_is_that_of_the_slopes(p: Small) -> None:
    decoder = path_of(p, "exact").decoder(p.mean)
    Y, x = p.Y[:1], p.mean[:1]
    J = torch.autograd.functional.jacobian(lambda at: decoder.predict(at)[0][0], x)[:, 0]
    _, variance, _ = decoder.decode(x)
    precision = torch.eye(2).double() + (J.T / variance) @ J
    factor = gaussian_factors(decoder, Y, x)[0]
    torch.testing.assert_close(factor @ factor.T, torch.linalg.inv(precision), atol=1e-7, rtol=1e-6)


def test_moments_of_a_mixture_are_those_of_draws(p: Small) -> None:
    decoder = path_of(p, "exact").decoder(p.mean)
    mean = p.mean[None, :2]
    factor = torch.tensor([[0.3, 0.0], [0.1, 0.2]]).double().expand(1, 2, 2, 2)
    weights = torch.tensor([[0.7, 0.3]]).double()
    found = decode_gaussians(decoder, mean, factor, weights)
    rng = np.random.default_rng(0)
    which = rng.choice(2, size=100_000, p=[0.7, 0.3])
    x = mean[0].numpy()[which] + rng.normal(size=(100_000, 2)) @ factor[0, 0].numpy().T
    f, variance, _ = (part.numpy() for part in decoder.decode(torch.as_tensor(x)))
    np.testing.assert_allclose(found[0][0], f.mean(0), atol=0.02)
    np.testing.assert_allclose(found[1][0], f.var(0) + variance.mean(0), rtol=0.03)
    assert float(found[2][0, 0]) == float(decoder.noise[0])
