"""Batched minimisation of many small functions, and the placing of rows."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from lvmcore.gp import latent_inference
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.latent_inference import infer_rows, refine_rows
from lvmcore.numerics.batched_bfgs import minimise_rows, polish_rows
from tests.unit.lvmcore.small_problems import Small, small_decoder, small_problem


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


class Quadratics:
    """½ (x − c_n)ᵀ A_n (x − c_n), every row with its own centre and conditioning."""

    def __init__(self, N: int, P: int) -> None:
        root = normal(N, P, P)
        ridge = torch.logspace(-1, 2, N, dtype=torch.float64)[:, None, None]
        self.A = root @ root.mT + ridge * torch.eye(P, dtype=torch.float64)
        self.centre = 3 * normal(N, P, seed=1)

    def __call__(self, x: Tensor, rows: Tensor) -> Tensor:
        away = x - self.centre[rows]
        return 0.5 * (away[:, None] @ self.A[rows] @ away[:, :, None])[:, 0, 0]


def rosenbrock(x: Tensor, rows: Tensor) -> Tensor:
    steep = 1.0 + 10.0 * rows
    return (1 - x[:, 0]) ** 2 + steep * (x[:, 1] - x[:, 0] ** 2) ** 2


def test_quadratics_are_solved() -> None:
    f = Quadratics(12, 4)
    x, value = minimise_rows(f, torch.zeros(12, 4, dtype=torch.float64), max_iter=200)
    torch.testing.assert_close(x, f.centre, rtol=0, atol=5e-3)
    assert float(value.max()) < 1e-4


def test_bent_valleys_are_solved() -> None:
    start = torch.tensor([[-1.2, 1.0]], dtype=torch.float64).repeat(8, 1)
    x, value = minimise_rows(rosenbrock, start, max_iter=400, tolerance=1e-6)
    torch.testing.assert_close(x, torch.ones_like(x), rtol=0, atol=1e-4)
    assert float(value.max()) < 1e-9


def test_a_row_is_solved_alike_alone_and_in_company() -> None:
    f = Quadratics(6, 3)
    start = torch.zeros(6, 3, dtype=torch.float64)
    together, _ = minimise_rows(f, start, max_iter=100)
    for n in range(6):
        alone, _ = minimise_rows(
            lambda x, rows, n=n: f(x, rows + n), start[n : n + 1], max_iter=100
        )
        torch.testing.assert_close(alone[0], together[n], rtol=1e-10, atol=1e-10)


def test_rows_without_a_minimum_stop_and_leave_the_others_alone() -> None:
    """Row 0 falls for ever, row 1 is broken everywhere, row 2 breaks beyond its start."""

    def f(x: Tensor, rows: Tensor) -> Tensor:
        square = (x - 1).square().sum(1)
        values = torch.where(rows == 0, x.sum(1), square)
        values = torch.where(rows == 1, torch.nan, values)
        return torch.where((rows == 2) & (x[:, 0] > 0), torch.nan, values)

    x, value = minimise_rows(f, torch.zeros(4, 2, dtype=torch.float64), max_iter=50)
    assert float(value[0]) < -10
    assert x[1].tolist() == [0.0, 0.0]
    assert bool(torch.isfinite(x[2]).all())
    assert float(value[2]) <= 2.0
    torch.testing.assert_close(x[3], torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-3)


def test_values_never_rise_and_belong_to_the_points() -> None:
    start = normal(5, 2)
    before = rosenbrock(start, torch.arange(5))
    for budget in (0, 1, 3, 10):
        x, value = minimise_rows(rosenbrock, start, max_iter=budget)
        assert bool((value <= before + 1e-12).all())
        torch.testing.assert_close(value, rosenbrock(x, torch.arange(5)))


def test_polishing_makes_near_minimisers_exact() -> None:
    near = 1 + 1e-3 * normal(5, 2)
    rows = torch.arange(5)
    x = polish_rows(rosenbrock, near, rows)
    assert float((near - 1).abs().max()) > 1e-4
    torch.testing.assert_close(x, torch.ones_like(x), rtol=0, atol=1e-9)


def test_polishing_leaves_alone_what_it_cannot_improve() -> None:
    """At a maximum the Hessian is not positive definite; where f is broken there is no step."""

    def f(x: Tensor, rows: Tensor) -> Tensor:
        hill = -(x - 0.1).square().sum(1)
        return torch.where(rows == 0, hill, torch.where(rows == 1, torch.nan, -hill))

    start = torch.zeros(3, 2, dtype=torch.float64)
    x = polish_rows(f, start, torch.arange(3))
    assert torch.equal(x[:2], start[:2])
    torch.testing.assert_close(x[2], torch.full((2,), 0.1, dtype=torch.float64))


@pytest.fixture(scope="module")
def fitted() -> tuple[Small, DataDecoder, Tensor]:
    """A decoder, and new rows: some near the fitted ones and some far from any."""
    p = small_problem(N=30, D=6, M=8)
    decoder = small_decoder(p)
    new = torch.cat([p.Y[:6] + 0.1 * normal(6, 6), 2 * normal(4, 6, seed=2)])
    return p, decoder, new


def loss(decoder: DataDecoder, y: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """−E log p(y | x) + KL(q(x) ‖ N(0, I)) of one row."""
    variance = log_variance.exp()
    q = Normal(mean, variance.sqrt())
    prior = Normal(torch.zeros_like(mean), 1.0)
    fit = decoder.expected_log_density(y[None], mean[None], variance[None])[0]
    return kl_divergence(q, prior).sum() - fit


def test_placed_rows_are_stationary(fitted: tuple[Small, DataDecoder, Tensor]) -> None:
    p, decoder, new = fitted
    mean, variance = infer_rows(decoder, new, p.mean, p.variance)
    for y, m, v in zip(new, mean, variance.log(), strict=True):
        leaves = m.clone().requires_grad_(), v.clone().requires_grad_()
        for gradient in torch.autograd.grad(loss(decoder, y, *leaves), leaves):
            assert float(gradient.abs().max()) < 1e-6


@pytest.mark.slow
def test_placing_is_as_good_as_scipy_from_the_same_starts(
    fitted: tuple[Small, DataDecoder, Tensor],
) -> None:
    p, decoder, new = fitted
    mean, variance = infer_rows(decoder, new, p.mean, p.variance, starts=len(p.mean))
    for n in range(0, len(new), 2):

        def value(x: np.ndarray, y: Tensor = new[n]) -> tuple[float, np.ndarray]:
            leaf = torch.as_tensor(x).requires_grad_()
            out = loss(decoder, y, leaf[:2], leaf[2:])
            (gradient,) = torch.autograd.grad(out, leaf)
            return float(out.detach()), gradient.numpy()

        found = [
            minimize(value, np.concatenate([m, np.log(v)]), jac=True, method="L-BFGS-B").fun
            for m, v in zip(p.mean.numpy(), p.variance.numpy(), strict=True)
        ]
        ours = float(loss(decoder, new[n], mean[n], variance[n].log()))
        assert ours <= min(found) + 1e-5


def test_the_best_of_the_starts_is_kept(fitted: tuple[Small, DataDecoder, Tensor]) -> None:
    p, decoder, new = fitted
    losses = []
    for starts in (1, 3, len(p.mean)):
        mean, variance = infer_rows(decoder, new, p.mean, p.variance, starts=starts)
        rows = zip(new, mean, variance.log(), strict=True)
        losses.append(torch.stack([loss(decoder, *row) for row in rows]))
    assert bool((losses[1] <= losses[0] + 1e-6).all())
    assert bool((losses[2] <= losses[1] + 1e-6).all())
    assert bool((losses[2] < losses[0] - 1e-3).any())  # there is more than one optimum to choose


def test_placing_does_not_depend_on_neighbours(
    fitted: tuple[Small, DataDecoder, Tensor],
) -> None:
    p, decoder, new = fitted
    together = torch.cat(infer_rows(decoder, new, p.mean, p.variance), 1)
    order = torch.tensor([7, 2, 9, 0, 4, 1, 8, 3, 6, 5])
    permuted = torch.cat(infer_rows(decoder, new[order], p.mean, p.variance), 1)
    torch.testing.assert_close(permuted, together[order], rtol=0, atol=1e-6)
    for n in range(len(new)):
        alone = torch.cat(infer_rows(decoder, new[n : n + 1], p.mean, p.variance), 1)
        torch.testing.assert_close(alone[0], together[n], rtol=0, atol=1e-6)


@pytest.mark.parametrize("gaps", [False, True])
def test_few_distances_to_the_rows_of_the_fit_are_held_at_a_time(
    fitted: tuple[Small, DataDecoder, Tensor], monkeypatch: pytest.MonkeyPatch, *, gaps: bool
) -> None:
    p, decoder, new = fitted
    Y = new.clone()
    Y[:, 0] = torch.nan if gaps else Y[:, 0]
    together = torch.cat(infer_rows(decoder, Y, p.mean, p.variance), 1)
    held: list[int] = []
    distances = latent_inference._distances

    def counted(some: Tensor, reconstruction: Tensor) -> Tensor:
        found = distances(some, reconstruction)
        held.append(found.numel())
        return found

    monkeypatch.setattr(latent_inference, "_distances", counted)
    monkeypatch.setattr(latent_inference, "DISTANCES", 3 * len(p.mean))
    parts = torch.cat(infer_rows(decoder, Y, p.mean, p.variance), 1)
    assert max(held) == 3 * len(p.mean)
    assert sum(held) == len(Y) * len(p.mean)
    torch.testing.assert_close(parts, together, rtol=0, atol=1e-6)


def test_refinement_improves_every_row_up_to_its_optimum(
    fitted: tuple[Small, DataDecoder, Tensor],
) -> None:
    _, decoder, new = fitted
    first = 0.3 * normal(len(new), 2, seed=6), torch.full((len(new), 2), 0.2).double()

    def losses(mean: Tensor, variance: Tensor) -> Tensor:
        rows = zip(new, mean, variance.log(), strict=True)
        return torch.stack([loss(decoder, *row) for row in rows])

    before = losses(*first)
    few = losses(*refine_rows(decoder, new, *first, max_iter=3))
    many = losses(*refine_rows(decoder, new, *first, max_iter=300))
    assert bool((few <= before).all())
    assert float(few.sum()) < float(before.sum()) - 1
    assert bool((many <= few + 1e-6).all())
    for y, m, v in zip(new, *refine_rows(decoder, new, *first, max_iter=300), strict=True):
        leaves = m.clone().requires_grad_(), v.log().requires_grad_()
        for gradient in torch.autograd.grad(loss(decoder, y, *leaves), leaves):
            assert float(gradient.abs().max()) < 2e-3


def test_refinement_does_not_depend_on_neighbours(
    fitted: tuple[Small, DataDecoder, Tensor],
) -> None:
    _, decoder, new = fitted
    first = 0.3 * normal(len(new), 2, seed=6), torch.full((len(new), 2), 0.2).double()
    together = torch.cat(refine_rows(decoder, new, *first, max_iter=5), 1)
    for n in range(len(new)):
        one = slice(n, n + 1)
        alone = refine_rows(decoder, new[one], first[0][one], first[1][one], max_iter=5)
        torch.testing.assert_close(torch.cat(alone, 1)[0], together[n], rtol=0, atol=1e-6)


def test_more_starts_than_fitted_rows_are_allowed() -> None:
    p = small_problem(N=2, M=2)
    mean, variance = infer_rows(small_decoder(p), p.Y, p.mean, p.variance, starts=5)
    assert mean.shape == variance.shape == (2, 2)
    assert float(variance.min()) > 0
