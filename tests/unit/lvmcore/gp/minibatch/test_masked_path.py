"""The bound from batches of a table with gaps, against the masked bound and explicit matrices."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.gp.masked_bound import masked_bound, masked_optimum
from lvmcore.gp.minibatch.cell_sums import CellSums
from lvmcore.gp.minibatch.data_path import StochasticDataPath
from lvmcore.gp.minibatch.masked_path import DrawnRows, MaskedStochasticDataPath, column_groups
from lvmcore.kernels.psi_statistics import MaskedPsiSums, masked_psi_sums, psi1, psi_sums
from lvmcore.numerics.gaussians import LOG_2PI, kl_whitened
from lvmcore.numerics.linalg import cholesky
from lvmcore.preprocessing.observed_cells import ObservedCells
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.batches import Batches
from tests.unit.lvmcore.small_problems import Small, small_problem


class Holed:
    """A small problem with gaps, and the path that learns from it."""

    def __init__(self, *, N: int = 12, D: int = 4, shared: bool = False, seed: int = 0) -> None:
        p = small_problem(N=N, D=D, seed=seed)
        draw = torch.Generator().manual_seed(seed + 1)
        self.observed = torch.rand((N, D), generator=draw) < 0.7
        self.observed[:, 2] = self.observed[:, 0]  # two columns with the same rows
        self.observed[1] = False
        self.observed[0] = True
        self.p = p
        self.Y = torch.where(self.observed, p.Y, 0.0)
        noise = p.noise[:1] if shared else p.noise
        self.path = MaskedStochasticDataPath(p.Z, noise, InMemoryRows(self.Y, self.observed))
        with torch.no_grad():
            self.path.log_variance.fill_(0.3)
            self.path.log_lengthscales.copy_(torch.tensor([-0.1, 0.4]))

    @property
    def noise(self) -> Tensor:
        return self.path.noise.expand(self.Y.shape[1])

    @property
    def cells(self) -> CellSums:
        return CellSums.of(self.Y, self.observed)

    def sums(self, rows: slice = slice(None)) -> MaskedPsiSums:
        p = self.p
        return self.path.sums(p.mean[rows], p.variance[rows], self.Y[rows], self.observed[rows])

    def batch(self, rows: slice) -> Tensor:
        return self.path.batch_bound(self.sums(rows), self.Y[rows], None, self.observed[rows])

    def prime(self, rows: slice) -> None:
        self.path.prime(self.sums(rows), self.Y[rows], self.observed[rows])

    def collapsed(self) -> Tensor:
        kernel, Z = self.path.kernel, self.path.Z
        cells = ObservedCells.from_mask(self.observed, self.Y)
        sums = masked_psi_sums(kernel, self.p.mean, self.p.variance, Z, self.Y, cells)
        squares = self.Y.square().sum(0)
        return masked_bound(sums, kernel(Z, Z), self.noise, squares, cells.counts)

    def astray(self) -> None:
        """Leave q(V) at the optimum for other data."""
        other = small_problem(N=len(self.Y), D=self.Y.shape[1], seed=5)
        with torch.no_grad():
            sums = self.path.sums(other.mean, other.variance, other.Y, self.observed)
            self.path.follow(*self.path.whiten(sums), 1.0)


def explicit(holed: Holed, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:
    """E log p of some rows and KL(q(V)), column by column with every matrix written out."""
    path, p = holed.path, holed.p
    L, _ = cholesky(path.kernel(path.Z, path.Z), "Kuu")
    inverse, eye = torch.linalg.inv(L), torch.eye(len(L), dtype=L.dtype)
    fit = kl = torch.zeros((), dtype=torch.float64)
    for d, noise in enumerate(holed.noise):
        B = noise * eye + path.G[path.groups[d]]
        mean, covariance = torch.linalg.solve(B, path.P[:, d]), noise * torch.linalg.inv(B)
        kl = kl + kl_whitened(mean[None], torch.linalg.cholesky(covariance)[None])
        for n in range(*rows.indices(len(holed.Y))):
            if not holed.observed[n, d]:
                continue
            one = slice(n, n + 1)
            row = psi_sums(path.kernel, p.mean[one], p.variance[one], path.Z, holed.Y[one])
            g, first = inverse @ row.psi2 @ inverse.T, inverse @ row.psi1Y[:, d]
            second = row.psi0 + (g * (mean.outer(mean) + covariance - eye)).sum()
            error = holed.Y[n, d] ** 2 - 2 * mean @ first + second
            fit = fit - 0.5 * (LOG_2PI + noise.log() + error / noise)
    return fit, kl


def parameters(path: MaskedStochasticDataPath) -> list[torch.nn.Parameter]:
    return [path.Z, path.log_lengthscales, path.log_variance]


# ---- which columns go together -------------------------------------------------------------------


class InBlocks(InMemoryRows):
    """A table that comes three rows at a time."""

    def blocks(self, size: int = 3) -> Iterator[tuple[Tensor, Tensor | None]]:
        del size
        return super().blocks(3)


def test_columns_go_together_where_they_have_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    patterns = rng.random((10, 4)) < 0.6
    patterns[:, 3] = patterns[:, 2]
    patterns[9, 3] = ~patterns[9, 2]  # told apart by the last block alone
    of_columns = [0, 1, 0, 2, 3, 2, 1]
    observed = torch.as_tensor(patterns[:, of_columns])
    groups, first = column_groups(InBlocks(torch.zeros(10, 7), observed))
    assert len(first) == 4
    for i, mine in enumerate(of_columns):
        for j, theirs in enumerate(of_columns):
            assert bool(groups[i] == groups[j]) == (mine == theirs)
    assert groups[first].tolist() == list(range(4))


# ---- the bound -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_of_all_rows_is_the_masked_bound_with_its_gradient(*, shared: bool) -> None:
    holed = Holed(shared=shared)
    path = holed.path
    holed.astray()
    got, expected = holed.batch(slice(None)), holed.collapsed()
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-9)
    wanted = [*parameters(path), path.log_noise]
    for mine, theirs in zip(
        torch.autograd.grad(got, wanted), torch.autograd.grad(expected, wanted), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-9)
        assert float(mine.abs().max()) > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_estimates_the_bound_of_explicit_covariances(*, shared: bool) -> None:
    holed = Holed(shared=shared)
    holed.astray()
    for rows in (slice(0, 4), slice(4, 12)):
        fit, kl = explicit(holed, rows)
        expected = 12 / (rows.stop - rows.start) * fit - kl
        torch.testing.assert_close(holed.batch(rows), expected, rtol=1e-10, atol=1e-9)
    fit, kl = explicit(holed)
    assert float(fit - kl) < float(holed.collapsed())


@torch.no_grad()
def test_at_its_optimum_q_gives_the_masked_bound() -> None:
    holed = Holed()
    holed.path.follow(*holed.path.whiten(holed.sums()), 1.0)
    fit, kl = explicit(holed)
    torch.testing.assert_close(fit - kl, holed.collapsed(), rtol=1e-10, atol=1e-9)
    G, P = holed.path.whiten(holed.sums())
    q = holed.path.moments(G)
    torch.testing.assert_close(q.kl, kl, rtol=1e-10, atol=1e-9)
    psi0 = holed.sums().psi0
    error = q.expected_error(P, psi0, holed.cells.squares)
    logs = holed.path.counts * (LOG_2PI + holed.noise.log())
    torch.testing.assert_close(-0.5 * (logs + error / holed.noise).sum(), fit)


def test_batches_and_their_gradients_are_without_bias() -> None:
    holed = Holed()
    holed.astray()
    path = holed.path
    state = [tensor.detach().clone() for tensor in (path.G, path.P, path.log_noise)]

    def estimate(rows: slice) -> list[Tensor]:
        with torch.no_grad():
            for tensor, value in zip((path.G, path.P, path.log_noise), state, strict=True):
                tensor.copy_(value)
        bound = holed.batch(rows)
        return [bound.detach(), *torch.autograd.grad(bound, parameters(path))]

    parts = [estimate(slice(start, start + 3)) for start in range(0, 12, 3)]
    with torch.no_grad():
        for tensor, value in zip((path.G, path.P, path.log_noise), state, strict=True):
            tensor.copy_(value)
    fit, kl = explicit(holed)
    gradients = torch.autograd.grad(fit, parameters(path))
    for i, expected in enumerate([(fit - kl).detach(), *gradients]):
        mean = torch.stack([part[i] for part in parts]).mean(0)
        torch.testing.assert_close(mean, expected, rtol=1e-8, atol=1e-8)


def test_rows_at_a_draw_are_rows_of_no_variance() -> None:
    holed, drawn = Holed(), Holed()
    rows = slice(3, 9)
    X, Y, observed = holed.p.mean[rows], holed.Y[rows], holed.observed[rows]
    for one in (holed, drawn):
        one.astray()
    certain = torch.full_like(X, 1e-14)
    expected = holed.path.batch_bound(holed.path.sums(X, certain, Y, observed), Y, None, observed)
    sums = drawn.path.drawn_sums(X, Y, observed)
    assert isinstance(sums, DrawnRows)
    got = drawn.path.batch_bound(sums, Y, None, observed)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(
        torch.autograd.grad(got, parameters(drawn.path)),
        torch.autograd.grad(expected, parameters(holed.path)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-7)
    # What q(V) and the noise follow is the same as well.
    for name in ("G", "P", "log_noise"):
        torch.testing.assert_close(
            getattr(drawn.path, name), getattr(holed.path, name), rtol=1e-8, atol=1e-8
        )


@torch.no_grad()
def test_without_gaps_it_is_the_path_of_complete_tables() -> None:
    p = small_problem(N=12, D=4)
    table = InMemoryRows(p.Y, torch.ones_like(p.Y, dtype=torch.bool))
    masked = MaskedStochasticDataPath(p.Z, p.noise[:1], table)
    whole = StochasticDataPath(p.Z, p.noise[:1], InMemoryRows(p.Y))
    assert masked.cells == whole.cells == 48
    for rows in (slice(0, 5), slice(5, 12), slice(0, 5)):
        bounds = []
        for path in (masked, whole):
            with torch.enable_grad():
                sums = path.sums(p.mean[rows], p.variance[rows], p.Y[rows], None)
                bounds.append(path.batch_bound(sums, p.Y[rows]).detach())
        torch.testing.assert_close(*bounds, rtol=1e-10, atol=1e-9)
        torch.testing.assert_close(masked.log_noise, whole.log_noise)


# ---- what follows the batches --------------------------------------------------------------------


def run(holed: Holed, turns: int) -> None:
    batches = Batches(len(holed.Y), 40, torch.Generator().manual_seed(0))
    for _ in range(turns):
        rows = batches.next()
        p, Y, observed = holed.p, holed.Y[rows], holed.observed[rows]
        sums = holed.path.sums(p.mean[rows], p.variance[rows], Y, observed)
        holed.path.batch_bound(sums, Y, None, observed)


@pytest.mark.slow
def test_batches_in_turn_lead_to_the_neighbourhood_of_the_optimum() -> None:
    holed = Holed(N=400)
    with torch.no_grad():
        holed.prime(slice(0, 100))
    run(holed, 150)
    with torch.no_grad():
        fit, kl = explicit(holed)
        best = float(holed.collapsed())
    assert best - 8 < float(fit - kl) <= best


def test_the_noise_follows_to_its_best_value() -> None:
    """The value at which the bound of all rows is stationary in the noise."""
    holed = Holed(N=300)
    path = holed.path
    with torch.no_grad():
        holed.prime(slice(None))
    run(holed, 400)
    free = torch.full((4,), 0.1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([free], max_iter=100, line_search_fn="strong_wolfe")
    with torch.no_grad():
        sums, kernel = holed.sums(), path.kernel(path.Z, path.Z)

    def loss() -> Tensor:
        optimiser.zero_grad()
        bound = masked_bound(sums, kernel, free, path.squares, path.counts)
        (-bound).backward()  # type: ignore[no-untyped-call]
        return -bound.detach()

    optimiser.step(loss)
    torch.testing.assert_close(path.noise.detach(), free.detach(), rtol=0.1, atol=0)


@torch.no_grad()
@pytest.mark.parametrize(
    ("left", "noise"),
    [
        ([0.4, 0.5, 0.6, 0.5], [0.4, 0.5, 0.6, 0.5]),  # none is below half of the average
        ([0.01, 0.02, 0.03, 1.0], [0.2, 0.2, 0.2, 1.0]),
        ([0.9, 0.02, 0.03, 0.9], [0.9, 0.3, 0.3, 0.9]),
    ],
)
def test_noise_is_what_is_left_and_at_least_half_of_the_average(
    left: list[float], noise: list[float]
) -> None:
    holed = Holed()
    path, error = holed.path, holed.path.counts * torch.tensor(left).double()
    best = path._noise_parameters(path._residual_variance(error, holed.cells))
    path.log_noise.copy_(best.clamp_min(1e-6).log())
    torch.testing.assert_close(path.noise, torch.tensor(noise).double(), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_frozen_path_predicts_as_the_optimum_of_all_rows() -> None:
    holed = Holed()
    path, cells = holed.path, ObservedCells.from_mask(holed.observed, holed.Y)
    kernel = path.kernel
    sums = masked_psi_sums(kernel, holed.p.mean, holed.p.variance, path.Z, holed.Y, cells)
    expected = path.decoder(masked_optimum(sums, kernel(path.Z, path.Z), holed.noise))
    X = torch.linspace(-2, 2, 10, dtype=torch.float64).reshape(5, 2)
    parts = holed.sums(slice(0, 5)) + holed.sums(slice(5, 12))
    for got, wanted in zip(
        path.decoder(path.optimum(parts)).predict(X), expected.predict(X), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-8)


@torch.no_grad()
def test_cells_taken_out_of_the_sums_leave_those_of_the_others() -> None:
    holed = Holed()
    p, path = holed.p, holed.path
    held = holed.observed.clone()
    held[5:] = False
    held[:, 1] = False
    rest = holed.observed & ~held

    def of(mask: Tensor) -> MaskedPsiSums:
        Y, cells = torch.where(mask, p.Y, 0.0), ObservedCells.from_mask(mask, p.Y)
        return masked_psi_sums(path.kernel, p.mean, p.variance, path.Z, Y, cells)

    got, expected = holed.sums().subtract(of(held)), of(rest)
    torch.testing.assert_close(got.psi0, expected.psi0, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got.psi1Y, expected.psi1Y, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        got.psi2[:, got.groups], expected.psi2[:, expected.groups], rtol=1e-9, atol=1e-9
    )


@torch.no_grad()
def test_cells_far_out_do_not_lead_q_astray() -> None:
    holed, tame = Holed(), Holed()
    holed.Y[0, 0] = 200.0
    tame.Y[0, 0] = 6.0
    rows = slice(0, 4)
    with torch.enable_grad():
        p, path, observed = holed.p, holed.path, holed.observed[rows]
        K = psi1(path.kernel, p.mean[rows], p.variance[rows], path.Z).detach()
        beyond = holed.Y[rows] - holed.Y[rows].clamp(-6, 6)
        path.batch_bound(holed.sums(rows), holed.Y[rows], K.T @ beyond, observed)
        tame.batch(rows)
    torch.testing.assert_close((path.G, path.P), (tame.path.G, tame.path.P), rtol=1e-7, atol=1e-9)


def test_the_problem_has_gaps_of_every_kind() -> None:
    """The tests above would show little otherwise."""
    holed = Holed()
    assert isinstance(holed.p, Small)
    assert holed.path.cells == int(holed.observed.sum()) < holed.observed.numel()
    assert len(holed.path.first) == 3
    assert not bool(holed.observed[1].any())
