"""The collapsed bound with missing cells against the bound of each column's observed rows."""

import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from lvmcore.gp import masked_bound as gp_masked_bound
from lvmcore.gp.bounds import collapsed_bound
from lvmcore.gp.masked_bound import masked_bound
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.kernels.psi_exponents import full_from_pairs
from lvmcore.kernels.psi_statistics import masked_psi_sums, psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.preprocessing.observed_cells import ObservedCells
from tests.unit.lvmcore.small_problems import Small, small_problem

D = 5


def holes(p: Small, *, share: float = 0.4, seed: int = 0) -> Tensor:
    """Which cells are observed: columns 0 and 3 have the same rows, column 1 has all."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(p.Y.shape, generator=generator) > share
    mask[:2] = True
    mask[:, 1], mask[:, 3] = True, mask[:, 0]
    return mask


def with_zeros(p: Small, mask: Tensor) -> Small:
    return Small(p.mean, p.variance, p.Z, p.Y * mask, p.noise)


def ours(p: Small, cells: ObservedCells) -> Tensor:
    kernel = p.rbf
    sums = masked_psi_sums(kernel, p.mean, p.variance, p.Z, p.Y, cells)
    return masked_bound(sums, kernel(p.Z, p.Z), p.noise, p.squares, cells.counts)


def column(p: Small, mask: Tensor, d: int) -> Small:
    """The rows observed in column d, and that column alone."""
    rows = mask[:, d]
    one = slice(d, d + 1)
    return Small(p.mean[rows], p.variance[rows], p.Z, p.Y[rows, one], p.noise[one])


def by_columns(p: Small, mask: Tensor) -> Tensor:
    """The bound without missing cells of each column's rows, added up."""
    kernel, total = p.rbf, torch.zeros((), dtype=torch.float64)
    for d in range(p.Y.shape[1]):
        c = column(p, mask, d)
        sums = psi_sums(kernel, c.mean, c.variance, c.Z, c.Y)
        total = total + collapsed_bound(sums, kernel(c.Z, c.Z), c.noise, c.squares, len(c.Y))[0]
    return total


@pytest.fixture
def problem() -> tuple[Small, Tensor]:
    p = small_problem(N=14, D=D)
    mask = holes(p)
    return with_zeros(p, mask), mask


@pytest.mark.parametrize("chunk", [1, 60, 1 << 20])
def test_equals_the_bounds_of_the_columns_own_rows(
    problem: tuple[Small, Tensor], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of one column, of two, and of all: those with the same rows fall into two of them."""
    p, mask = problem
    monkeypatch.setattr(gp_masked_bound, "CHUNK_CELLS", chunk)
    cells = ObservedCells.from_mask(mask, p.Y)
    assert cells.sets.shape[1] == D - 1
    results = []
    for bound in (lambda p: ours(p, cells), lambda p: by_columns(p, mask)):
        leaves = [t.clone().requires_grad_() for t in (p.mean, p.variance, p.Z, p.noise)]
        value = bound(Small(*leaves[:3], p.Y, leaves[3]))
        results.append([value, *torch.autograd.grad(value, leaves)])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-7)


def test_without_missing_cells_it_is_the_bound_of_all_cells() -> None:
    p = small_problem(N=14, D=D)
    kernel = p.rbf
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    expected, _ = collapsed_bound(sums, kernel(p.Z, p.Z), p.noise, p.squares, len(p.Y))
    cells = ObservedCells.from_mask(torch.ones_like(p.Y, dtype=torch.bool), p.Y)
    assert cells.sets.shape == (14, 1)
    assert float(ours(p, cells)) == pytest.approx(float(expected), rel=1e-10)


def test_gradients_are_exact(problem: tuple[Small, Tensor]) -> None:
    p, mask = problem
    cells = ObservedCells.from_mask(mask, p.Y)

    def bound(
        mean: Tensor, log_S: Tensor, Z: Tensor, log_v: Tensor, log_l: Tensor, log_noise: Tensor
    ) -> Tensor:
        kernel = RBF(log_v.exp(), log_l.exp())
        sums = masked_psi_sums(kernel, mean, log_S.exp(), Z, p.Y, cells)
        return masked_bound(sums, kernel(Z, Z), log_noise.exp(), p.squares, cells.counts)

    kernel = p.rbf
    raw = [p.mean, p.variance.log(), p.Z, kernel.variance.log(), kernel.lengthscales.log()]
    leaves = [leaf.clone().requires_grad_() for leaf in (*raw, p.noise.log())]
    assert torch.autograd.gradcheck(bound, leaves, atol=1e-5, rtol=1e-5)


def test_with_an_inducing_input_at_each_certain_row_is_the_exact_evidence() -> None:
    p = small_problem(N=8, D=D)
    mask = holes(p)
    sure = Small(p.mean, torch.full_like(p.variance, 1e-13), p.mean, p.Y * mask, p.noise)
    exact = 0.0
    for d, noise in enumerate(p.noise):
        x, y = p.mean[mask[:, d]], p.Y[mask[:, d], d]
        K = p.rbf(x, x) + noise * torch.eye(len(x))
        exact += float(multivariate_normal(cov=K.numpy()).logpdf(y.numpy()))
    # The jitter of Kuu, 1e-8, is all that tells them apart.
    assert float(ours(sure, ObservedCells.from_mask(mask, p.Y))) == pytest.approx(exact, abs=1e-5)


def test_sums_are_those_of_the_columns_own_rows(problem: tuple[Small, Tensor]) -> None:
    p, mask = problem
    cells = ObservedCells.from_mask(mask, p.Y)
    got = masked_psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y, cells, chunk_cells=40)
    full = full_from_pairs(got.psi2, len(p.Z))
    for d in range(D):
        c = column(p, mask, d)
        expected = psi_sums(p.rbf, c.mean, c.variance, c.Z, c.Y)
        torch.testing.assert_close(got.psi0[d], expected.psi0)
        torch.testing.assert_close(got.psi1Y[:, d : d + 1], expected.psi1Y)
        torch.testing.assert_close(full[:, :, got.groups[d]], expected.psi2)


@torch.no_grad()
def test_the_decoder_predicts_each_column_as_its_own_rows_do(
    problem: tuple[Small, Tensor],
) -> None:
    p, mask = problem
    start = torch.full((D,), 0.2, dtype=torch.float64)
    path, rows = DataPath(p.Z, start), LatentRows(p.mean, 0.3)
    decoder = path.decoder(path.masked_optimum(rows, p.Y, ObservedCells.from_mask(mask, p.Y)))
    X = 2 * torch.randn(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mean, variance = decoder.predict(X)
    for d in range(D):
        alone, mine = DataPath(p.Z, start[:1]), LatentRows(p.mean[mask[:, d]], 0.3)
        y = p.Y[mask[:, d], d : d + 1]
        q = alone.optimal_inducing(mine, y, y.square().sum(0))
        expected_mean, expected_variance = alone.decoder(q).predict(X)
        torch.testing.assert_close(mean[:, d : d + 1], expected_mean, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(variance[:, d : d + 1], expected_variance, rtol=1e-6, atol=1e-7)
