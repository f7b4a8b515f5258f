"""LBFGS against known minima and scipy, with rounded values and values that break down."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen, rosen_der
from torch import Tensor

from lvmcore.numerics import lbfgs
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.lbfgs import LBFGS, MOST_PAIRS, Evaluate, Point

SIZE = 10
START = torch.linspace(-1.5, 2, SIZE, dtype=torch.float64)


def point(x: Tensor, value: float, gradient: FloatArray) -> Point:
    return Point(x, float(value), torch.as_tensor(gradient))


def valley(x: Tensor) -> Point:
    """Rosenbrock's function of ten numbers; its minimum is 0 at 1."""
    return point(x, rosen(x.numpy()), rosen_der(x.numpy()))


def minimum(evaluate: Evaluate, steps: int, slack: float = 0.0, start: Tensor = START) -> Point:
    solver, at = LBFGS(slack), evaluate(start)
    for _ in range(steps):
        at = solver.iterate(at, evaluate)
    return at


def test_finds_the_minimum_in_about_the_steps_of_scipy() -> None:
    theirs = minimize(rosen, START.numpy(), jac=rosen_der, method="L-BFGS-B", tol=1e-12)
    found = minimum(valley, 2 * theirs.nit)
    np.testing.assert_allclose(found.x, np.ones(SIZE), atol=1e-5)
    assert found.value < 1e-9


def test_a_quadratic_function_ends_at_its_solution() -> None:
    half = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0)).double()
    A, b = half @ half.T + torch.eye(SIZE), torch.ones(SIZE).double()

    def bowl(x: Tensor) -> Point:
        return Point(x, float(0.5 * x @ A @ x - b @ x), A @ x - b)

    found = minimum(bowl, 80)
    torch.testing.assert_close(found.x, torch.linalg.solve(A, b), atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_values_with_rounding_errors_do_not_end_the_search(digits: int) -> None:
    """Near the minimum of a sum of squares a lucky value is the lowest."""
    scale = torch.logspace(0, 2, SIZE, dtype=torch.float64)
    noise = 10.0**-digits

    def rounded(x: Tensor) -> Point:
        error = noise * math.sin(1e7 * float(x.sum()))
        return Point(x, float(scale @ x.square()) + error, 2 * scale * x)

    assert minimum(rounded, 60, slack=2 * noise).x.abs().max() < 1e-6
    assert minimum(rounded, 60, slack=0.0).x.abs().max() > 1e-6


def test_a_value_that_the_slopes_do_not_explain_is_not_reached() -> None:
    """Where the values are far too low and the gradients right, the search stays outside."""

    def with_hole(x: Tensor) -> Point:
        wrong = -1e6 if 0.5 < float(x[0]) < 1.5 else 0.0
        return Point(x, float(x.square().sum()) + wrong, 2 * x)

    solver, at = LBFGS(1e-9), with_hole(torch.tensor([2.0, 1.0], dtype=torch.float64))
    for _ in range(30):
        at = solver.iterate(at, with_hole)
        assert at.value >= 0
    assert at.value < 5


def test_with_scales_it_is_the_search_in_scaled_coordinates() -> None:
    scales = torch.logspace(-2, 1, SIZE, dtype=torch.float64)

    def stretched(z: Tensor) -> Point:
        at = valley(z * scales)
        assert at.gradient is not None
        return Point(z, at.value, at.gradient * scales)

    plain, at = LBFGS(0.0), stretched(START / scales)
    scaled, there = LBFGS(0.0, scales=scales), valley(START)
    for _ in range(15):
        at, there = plain.iterate(at, stretched), scaled.iterate(there, valley)
        torch.testing.assert_close(there.x, at.x * scales, rtol=1e-6, atol=1e-9)


def test_scales_that_are_those_of_the_curvature_need_few_steps() -> None:
    curvature = torch.logspace(-4, 6, SIZE, dtype=torch.float64)

    def bowl(x: Tensor) -> Point:
        return Point(x, float(curvature @ x.square()) / 2, curvature * x)

    solver, at = LBFGS(0.0, scales=curvature.rsqrt()), bowl(START)
    for _ in range(4):
        at = solver.iterate(at, bowl)
    assert at.value < 1e-12 * bowl(START).value
    assert minimum(bowl, 4).value > 1e-9 * bowl(START).value


def test_a_value_never_rises_by_more_than_the_slack() -> None:
    solver, at = LBFGS(1e-3), valley(START)
    for _ in range(80):
        before, at = at.value, solver.iterate(at, valley)
        assert at.value <= before + 1e-3


def test_a_value_that_cannot_be_computed_shortens_the_step() -> None:
    def walled(x: Tensor) -> Point:
        if bool((x.abs() > 3).any()):
            return Point(x, math.inf, None)
        return Point(x, float((x - 2.9).square().sum()), 2 * (x - 2.9))

    found = minimum(walled, 30, start=torch.full((3,), -2.9, dtype=torch.float64))
    torch.testing.assert_close(found.x, torch.full((3,), 2.9, dtype=torch.float64))


def test_where_no_step_lowers_the_value_the_point_stays() -> None:
    def wall(x: Tensor) -> Point:
        away = bool((x != 1).any())
        return Point(x, math.inf, None) if away else Point(x, 0.0, torch.ones_like(x))

    at = wall(torch.ones(2, dtype=torch.float64))
    solver = LBFGS(0.0)
    assert solver.iterate(at, wall) is at
    flat = Point(at.x, 0.0, torch.zeros_like(at.x))
    assert solver.iterate(flat, wall) is flat
    assert solver.steps == solver.changes == []


def test_directions_without_convexity_add_no_pair() -> None:
    def ridge(x: Tensor) -> Point:
        return Point(x, float(-x.square().sum()), -2 * x)

    solver = LBFGS(0.0)
    at = ridge(torch.ones(2, dtype=torch.float64))
    assert solver.iterate(at, ridge).value < at.value
    assert solver.steps == []


def test_the_pairs_are_the_last_and_few_of_a_large_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs_after(steps: int) -> list[Tensor]:
        solver, at = LBFGS(0.0), valley(START)
        for _ in range(steps):
            at = solver.iterate(at, valley)
        return solver.steps

    assert len(pairs_after(60)) == MOST_PAIRS
    monkeypatch.setattr(lbfgs, "MOST_PAIR_BYTES", 16 * SIZE * 5)
    assert len(pairs_after(60)) == 5


def test_it_goes_on_from_its_pairs_as_if_it_had_not_stopped() -> None:
    whole = minimum(valley, 30)
    first, at = LBFGS(0.0), valley(START)
    for _ in range(12):
        at = first.iterate(at, valley)
    again = LBFGS(0.0, list(first.steps), list(first.changes))
    at = valley(at.x)
    for _ in range(18):
        at = again.iterate(at, valley)
    assert torch.equal(at.x, whole.x)
