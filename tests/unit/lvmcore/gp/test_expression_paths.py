"""Paths with a kernel of an expression: bounds against other routes, decoders against draws."""

import pytest
import torch
from torch import Tensor

from lvmcore.gp.data_decoder import DataDecoder, FunctionDecoder
from lvmcore.gp.minibatch.label_path import StochasticLabelPath
from lvmcore.gp.paths import DataPath, LabelPath, LatentRows
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.preprocessing.observed_cells import ObservedCells
from tests.unit.lvmcore.small_problems import Small, small_problem

SUM = "rbf(z1) * matern52(z2) + linear"


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def path_and_rows(p: Small, text: str | None) -> tuple[DataPath, LatentRows]:
    rows = LatentRows(p.mean, 0.1)
    with torch.no_grad():
        rows.log_variance.copy_(0.5 * p.variance.log() - 1)
    expression = None if text is None else read_kernel(text)
    return DataPath(p.Z, p.noise, expression=expression), rows


def fitted(p: Small, text: str) -> DataDecoder:
    path, rows = path_and_rows(p, text)
    return path.decoder(path.optimal_inducing(rows, p.Y, p.squares))


def test_the_bound_of_the_rbf_expression_is_near_the_closed_one() -> None:
    p = small_problem(N=30, M=6)
    bounds = []
    for text in (None, "rbf"):
        path, rows = path_and_rows(p, text)
        bounds.append(float(path.bound(rows, p.Y, p.squares).detach()))
    assert bounds[1] == pytest.approx(bounds[0], abs=0.01 * p.Y.numel())


@pytest.mark.parametrize("text", ["matern32", SUM])
def test_the_bound_without_variance_is_that_of_sparse_regression(text: str) -> None:
    p = small_problem(N=12, M=4)
    path, rows = path_and_rows(p, text)
    with torch.no_grad():
        rows.log_variance.fill_(-40.0)
        kernel = path.kernel
        K, Kuu = kernel(p.mean, p.Z), kernel(p.Z, p.Z)
        Qnn = K @ torch.linalg.solve(Kuu, K.T)
        rest = kernel.diagonal(p.mean) - Qnn.diagonal()
        noise = path.noise
        want = torch.zeros((), dtype=torch.float64)
        for d in range(p.Y.shape[1]):
            covariance = Qnn + noise[d] * torch.eye(12, dtype=torch.float64)
            normal = torch.distributions.MultivariateNormal(torch.zeros(12).double(), covariance)
            want += normal.log_prob(p.Y[:, d]) - 0.5 * rest.sum() / noise[d]
        torch.testing.assert_close(path.bound(rows, p.Y, p.squares), want, rtol=1e-5, atol=1e-4)


def test_the_masked_bound_of_complete_rows_is_the_bound() -> None:
    p = small_problem(N=12)
    path, rows = path_and_rows(p, SUM)
    cells = ObservedCells.from_mask(torch.ones_like(p.Y, dtype=torch.bool), p.Y)
    with torch.no_grad():
        torch.testing.assert_close(
            path.masked_bound(rows, p.Y, p.squares, cells), path.bound(rows, p.Y, p.squares)
        )


def test_gradients_of_the_bound_are_those_of_differences() -> None:
    p = small_problem(N=5, M=3)
    path, rows = path_and_rows(p, SUM)
    inputs = [*rows.parameters(), *path.parameters()]

    def bound(*_: Tensor) -> Tensor:
        return path.bound(rows, p.Y, p.squares)

    assert torch.autograd.gradcheck(bound, tuple(inputs), rtol=1e-3, atol=1e-4)


def test_moments_and_densities_are_those_of_drawn_positions() -> None:
    p, draws = small_problem(N=20, M=6), 100_000
    decoder = fitted(p, SUM)
    variance = 0.3 * p.variance
    mean, total, noise = decoder.moments(p.mean[:2], variance[:2])
    density = decoder.expected_log_density(p.Y[:2], p.mean[:2], variance[:2])
    assert decoder.complete_row_size == 32 * 6
    for n in range(2):
        X = p.mean[n] + variance[n].sqrt() * normal(draws, 2, seed=n)
        drawn, spread = decoder.predict(X)
        away = (drawn - drawn.mean(0)).square() + spread
        own = -0.5 * (
            (2 * torch.pi * noise[n]).log() + ((p.Y[n] - drawn).square() + spread) / noise[n]
        ).sum(1)
        for got, samples in ((mean[n], drawn), ((total - noise)[n], away), (density[n], own)):
            error = samples.std(0) / draws**0.5
            assert bool(((got - samples.mean(0)).abs() < 5 * error + 0.01 * got.abs()).all())


def test_a_row_with_gaps_counts_as_in_a_table_without_the_other_columns() -> None:
    p = small_problem(N=20, M=6)
    decoder = fitted(p, SUM)
    rows, Y = torch.arange(3), p.Y[:3]
    args = (rows, p.mean[:3], p.variance[:3])
    whole = decoder.complete_rows(Y).expected_log_density(*args)
    torch.testing.assert_close(decoder.observed_rows(Y).expected_log_density(*args), whole)
    holed = Y.clone()
    holed[:, 1] = torch.nan
    keep = [0, 2]
    fewer = DataDecoder(
        decoder.kernel,
        decoder.Z,
        decoder.basis,
        decoder.weights[:, keep],
        decoder.shrinkage[:, keep],
        decoder.noise[keep],
    )
    torch.testing.assert_close(
        decoder.observed_rows(holed).expected_log_density(*args),
        fewer.complete_rows(Y[:, keep]).expected_log_density(*args),
    )


@pytest.mark.parametrize("text", ["rbf", SUM, "matern12"])
def test_the_metric_is_the_mean_square_of_small_steps(text: str) -> None:
    p = small_problem(N=20, M=6)
    decoder, step = fitted(p, text), 1e-3
    G = decoder.metric(p.mean[:4])
    kernel = decoder.kernel
    for q in range(2):
        X = p.mean[:4]
        ahead, behind = X.clone(), X.clone()
        ahead[:, q] += 0.5 * step
        behind[:, q] -= 0.5 * step
        change = (decoder.predict(ahead)[0] - decoder.predict(behind)[0]).square().sum(1)
        if text != "matern12":  # of the mean alone
            for n in range(4):
                pair = torch.stack([ahead[n], behind[n]])
                joint, K = kernel(pair, pair), kernel(pair, decoder.Z)
                for d in range(3):
                    known = (K @ decoder.basis) * decoder.shrinkage[:, d] @ (K @ decoder.basis).T
                    left = joint - known
                    change[n] += left[0, 0] + left[1, 1] - 2 * left[0, 1]
        torch.testing.assert_close(G[:, q, q], change / step**2, rtol=2e-2, atol=1e-3)


def test_the_share_of_the_prior_variance_far_away_is_one() -> None:
    p = small_problem(N=20, M=6)
    decoder = fitted(p, "matern52")
    far = torch.full((1, 2), 80.0, dtype=torch.float64)
    assert float(decoder.prior_variance_share(far)) == pytest.approx(1, abs=1e-6)
    assert float(decoder.prior_variance_share(p.mean).median()) < 0.4


def test_decoders_come_back_from_their_arrays() -> None:
    p = small_problem(N=20, M=6)
    decoder = fitted(p, SUM)
    again = DataDecoder.from_arrays(decoder.arrays(), p.Y)
    for one, other in zip(again.decode(p.mean), decoder.decode(p.mean), strict=True):
        assert torch.equal(one, other)
    for path in (
        LabelPath(p.Z, 3, expression=read_kernel(SUM)),
        StochasticLabelPath(p.Z, 3, "probit", read_kernel(SUM)),
    ):
        with torch.no_grad():
            mean, variance = path.latent_function(p.mean)
        functions = path.decoder()
        found = functions.predict(p.mean)
        torch.testing.assert_close(found[0], mean)
        torch.testing.assert_close(found[1], variance, rtol=1e-5, atol=1e-6)
        same = FunctionDecoder.from_arrays(functions.arrays("labels.1."), p.Y, "labels.1.")
        assert torch.equal(same.predict(p.mean)[1], found[1])
