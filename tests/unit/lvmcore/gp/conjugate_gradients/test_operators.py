"""Products, low rank, solves and variances of many rows against dense matrices."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lvmcore.gp.conjugate_gradients import covariance, local_variance
from lvmcore.gp.conjugate_gradients.covariance import BlockedCovariance, cross_product
from lvmcore.gp.conjugate_gradients.local_variance import LocalVariance
from lvmcore.gp.conjugate_gradients.low_rank import (
    LowRankCovariance,
    choose_pivots,
    low_rank_features,
)
from lvmcore.gp.conjugate_gradients.posterior import calibrated_exponent
from lvmcore.gp.conjugate_gradients.solver import ConjugateGradients
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.composite import CompositeKernel


def process(text: str = "matern32", columns: int = 2) -> ExactGP:
    like = torch.ones(columns, dtype=torch.float64)
    names = [str(h) for h in range(columns)]
    gp = ExactGP(CompositeKernel(read_kernel(text), names, like), like)
    return gp.requires_grad_(requires_grad=False)


def draw(n: int = 90, columns: int = 2, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, columns, dtype=torch.float64, generator=generator)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("text", ["rbf", 'rbf + linear("0") * matern12'])
def test_products_in_blocks_are_those_of_the_matrix(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covariance, "BLOCK", 32)
    gp, X, V = process(text), draw(), draw(90, 3, 1)
    known = torch.linspace(0.0, 1.0, 90, dtype=torch.float64)
    found = BlockedCovariance(gp, X, known).product(V)
    torch.testing.assert_close(found, gp.noisy_covariance(X, known) @ V)
    other = draw(40, 2, 2)
    torch.testing.assert_close(cross_product(gp.kernel, other, X, V), gp.covariance(other, X) @ V)


def test_pivots_explain_more_than_rows_at_random_and_end_where_nothing_is_left() -> None:
    gp, X = process("rbf"), draw(300)

    def left(pivots: Tensor) -> float:
        L = LowRankCovariance(gp, X, torch.ones(300).to(X), pivots).features
        return float((gp.kernel.diagonal(X) - L.square().sum(1)).sum())

    chosen = choose_pivots(gp, X, 60, seeded())
    assert len(chosen.unique()) == len(chosen) == 60
    assert left(chosen) < 0.5 * left(torch.arange(60))
    torch.testing.assert_close(chosen, choose_pivots(gp, X, 60, seeded()))
    line = process("linear", 2)  # of rank 2
    assert len(choose_pivots(line, X, 60, seeded())) == 2
    copies = X[:5].repeat(30, 1)
    assert len(choose_pivots(gp, copies, 60, seeded())) == 5


@pytest.mark.parametrize("keeps", [False, True])
def test_the_low_rank_matrix_has_the_inverse_and_determinant_of_its_sum(keeps: bool) -> None:
    gp, X = process(), draw()
    noise = torch.linspace(0.1, 0.5, 90, dtype=torch.float64)
    pivots = choose_pivots(gp, X, 25, seeded())
    low = LowRankCovariance(gp, X, noise, pivots, keeps_diagonal=keeps)
    K = gp.covariance(X, X)
    Q = K[:, pivots] @ torch.linalg.solve(K[pivots][:, pivots], K[pivots])
    torch.testing.assert_close(low.features @ low.features.mT, Q)
    diagonal = noise + (K - Q).diagonal() if keeps else noise
    P = Q + torch.diag(diagonal)
    V = draw(90, 3, 1)
    torch.testing.assert_close(low.solve(V), torch.linalg.solve(P, V))
    torch.testing.assert_close(low.log_determinant, torch.logdet(P))
    new = draw(7, 2, 3)
    shared = low_rank_features(gp, new, low.Z, low.factor) @ low.features.mT
    explained = gp.covariance(new, X[pivots]) @ torch.linalg.solve(K[pivots][:, pivots], K[pivots])
    torch.testing.assert_close(shared, explained)
    drawn = low.sample(40_000, seeded(1))
    assert float((drawn @ drawn.mT / 40_000 - P).abs().max()) < 0.05


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its import
def test_solves_are_those_of_the_matrix_and_of_linear_operator() -> None:
    linear_cg = pytest.importorskip("linear_operator.utils.linear_cg").linear_cg
    gp, X, B = process(), draw(), draw(90, 4, 1)
    A = gp.noisy_covariance(X)
    low = LowRankCovariance(gp, X, gp.noise * torch.ones(90).to(X), torch.arange(10))
    solver = ConjugateGradients(A.matmul, low.solve, B)
    while float(solver.error.max()) > 1e-10:
        solver.iterate()
    assert solver.iterations < 90
    torch.testing.assert_close(solver.solution, torch.linalg.solve(A, B))
    theirs = linear_cg(A.matmul, B, tolerance=1e-5, max_iter=200, preconditioner=low.solve)
    torch.testing.assert_close(solver.solution, theirs, rtol=0, atol=2e-3)


def test_columns_that_are_solved_rest_and_zeros_stay() -> None:
    A = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    B = torch.eye(4, dtype=torch.float64)
    B[:, 1] = 0.0
    B[:, 3] = 1.0
    solver = ConjugateGradients(A.matmul, lambda V: V, B)
    for _ in range(9):  # more than any column needs
        solver.iterate()
    torch.testing.assert_close(solver.solution, torch.linalg.solve(A, B))


def test_quadratic_forms_are_those_of_the_logarithm_of_the_matrix() -> None:
    gp, X = process(), draw(40)
    noise = gp.noise * torch.ones(40).to(X)
    A, low = gp.noisy_covariance(X), LowRankCovariance(gp, X, noise, torch.arange(5))
    P = low.features @ low.features.mT + torch.diag(noise)
    values, vectors = torch.linalg.eigh(P)
    root = vectors @ torch.diag(values.rsqrt()) @ vectors.mT
    values, vectors = torch.linalg.eigh(root @ A @ root)
    logarithm = vectors @ torch.diag(values.log()) @ vectors.mT
    B = low.sample(3, seeded())
    W = root @ B
    solver = ConjugateGradients(A.matmul, low.solve, B)
    for _ in range(35):
        solver.iterate()
    expected = (W * (logarithm @ W)).sum(0) / W.square().sum(0)
    torch.testing.assert_close(solver.log_quadratic_forms(), expected, rtol=1e-6, atol=1e-8)


def test_a_restored_solver_goes_on_as_if_it_had_not_stopped() -> None:
    gp, X, B = process(), draw(), draw(90, 2, 1)
    A = gp.noisy_covariance(X)
    whole, first, second = (ConjugateGradients(A.matmul, lambda V: V, B) for _ in range(3))
    for _ in range(9):
        whole.iterate()
    for _ in range(4):
        first.iterate()
    second.restore(first.arrays())
    for _ in range(5):
        second.iterate()
    torch.testing.assert_close(second.solution, whole.solution, rtol=0, atol=0)
    torch.testing.assert_close(
        second.log_quadratic_forms(), whole.log_quadratic_forms(), rtol=0, atol=0
    )


def exact_variance(gp: ExactGP, X: Tensor, noise: Tensor, new: Tensor) -> Tensor:
    A, k = gp.covariance(X, X) + torch.diag(noise), gp.covariance(new, X)
    return gp.kernel.diagonal(new) - (k.mT * torch.linalg.solve(A, k.mT)).sum(0)


@pytest.mark.parametrize(("near", "pivots"), [(200, 9), (12, 90)])
def test_the_variance_is_exact_with_all_rows_near_or_all_as_pivots(
    near: int, pivots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_variance, "NEAREST", near)
    monkeypatch.setattr(local_variance, "POINTS", 7)
    gp, X, new = process("matern32 + linear"), draw(), draw(20, 2, 1)
    noise = torch.linspace(0.01, 0.5, 90, dtype=torch.float64)
    found = LocalVariance(gp, X, noise, torch.arange(pivots))
    expected = exact_variance(gp, X, noise, new)
    torch.testing.assert_close(found.at(new, gp.covariance(new, X)), expected)
    rows = torch.tensor([3, 50, 89])
    A = gp.covariance(X, X) + torch.diag(noise)
    left_out = 1 / torch.linalg.inv(A).diagonal()[rows] - noise[rows]
    torch.testing.assert_close(found.left_out(rows), left_out)


def test_the_variance_of_a_row_is_left_out_of_itself_alone() -> None:
    """The result of the other rows, conditioned without it, with the same inducing inputs."""
    gp, X = process(), draw(300)
    noise = torch.full((300,), 0.05, dtype=torch.float64)
    whole = LocalVariance(gp, X, noise, torch.arange(30))
    others = torch.arange(299)
    without = LocalVariance(gp, X[others], noise[others], torch.arange(30))
    expected = without.at(X[299:], gp.covariance(X[299:], X[others]))
    torch.testing.assert_close(whole.left_out(torch.tensor([299])), expected)


def test_the_exponent_makes_the_variance_exact_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_variance, "NEAREST", 4)
    gp, X = process("rbf", 3), draw(300, 3)
    noise = torch.full((300,), 0.01, dtype=torch.float64)
    variance = LocalVariance(gp, X, noise, choose_pivots(gp, X, 20, seeded()))
    rows = torch.arange(100)
    A = gp.covariance(X, X) + torch.diag(noise)
    exact = 1 / torch.linalg.inv(A).diagonal()[rows] - noise[rows]
    gamma = calibrated_exponent(variance, rows, exact)
    prior: Any = gp.kernel.diagonal(X[rows])
    logs = (variance.left_out(rows) / prior).log(), (exact / prior).log()
    errors = [float((logs[0] * power - logs[1]).square().mean()) for power in (gamma, 1.0)]
    assert gamma > 1.02  # low rank knows less than all rows
    assert errors[0] < 0.5 * errors[1]
    assert calibrated_exponent(variance, rows, variance.left_out(rows)) == pytest.approx(1.0)
