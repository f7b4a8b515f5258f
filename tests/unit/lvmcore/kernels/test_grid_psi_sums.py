"""Psi statistics on a grid of inducing inputs against those of the same inputs, free."""

import pytest
import torch
from torch import Tensor

from lvmcore.kernels import grid_psi_sums as module
from lvmcore.kernels.grid_psi_sums import GridPsiSums, grid_inputs, grid_psi_sums
from lvmcore.kernels.psi_statistics import psi_sums
from lvmcore.kernels.stationary import RBF

SIDE, ROWS, COLUMNS = 4, 23, 3


@pytest.fixture(params=["kept", "computed again", "few rows a chunk"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the factors of the rows are held between the passes."""
    if request.param != "kept":
        monkeypatch.setattr(module, "CACHE_CELLS", 0)
    if request.param == "few rows a chunk":
        monkeypatch.setattr(module, "CHUNK_CELLS", 5 * SIDE * SIDE)


def problem(seed: int = 0) -> tuple[list[Tensor], Tensor]:
    """Mean, S, nodes, lengthscales and variance of a kernel, and the data."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    mean, S, nodes = draw(ROWS, 2), draw(ROWS, 2).exp(), 1.5 * draw(SIDE, 2)
    kernel = [torch.tensor([0.8, 1.4]).double(), torch.tensor(1.3).double()]
    return [mean, S, nodes, *kernel], draw(ROWS, COLUMNS)


def grid_sums(*inputs: Tensor, Y: Tensor) -> tuple[Tensor, ...]:
    mean, S, nodes, lengthscales, variance = inputs
    sums = grid_psi_sums(RBF(variance, lengthscales), mean, S, nodes, Y)
    return sums.psi0, sums.psi1Y, sums.psi2


def free_sums(*inputs: Tensor, Y: Tensor) -> tuple[Tensor, ...]:
    mean, S, nodes, lengthscales, variance = inputs
    sums = psi_sums(RBF(variance, lengthscales), mean, S, grid_inputs(nodes), Y)
    return sums.psi0, sums.psi1Y, sums.psi2


def test_inputs_are_all_pairs_of_nodes() -> None:
    nodes = torch.tensor([[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]])
    Z = grid_inputs(nodes)
    assert Z.tolist() == [[a, b] for a in (0.0, 1.0, 2.0) for b in (5.0, 6.0, 7.0)]


@pytest.mark.usefixtures("storage")
def test_sums_and_gradients_equal_those_of_free_inducing_inputs() -> None:
    found = []
    for route in (grid_sums, free_sums):
        inputs, Y = problem()
        for tensor in inputs:
            tensor.requires_grad_()
        sums = route(*inputs, Y=Y)
        # Weights without symmetry: the gradient by each entry of psi2 counts.
        g = torch.Generator().manual_seed(1)
        total = sum((s * torch.randn(s.shape, generator=g, dtype=s.dtype)).sum() for s in sums)
        assert isinstance(total, Tensor)
        found.append([*sums, *torch.autograd.grad(total, inputs)])
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("storage")
def test_gradients_agree_with_finite_differences() -> None:
    inputs, Y = problem(2)
    leaves = [tensor.requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(lambda *x: grid_sums(*x, Y=Y)[1:], leaves)


def test_psi2_agrees_with_monte_carlo() -> None:
    (mean, S, nodes, lengthscales, variance), Y = problem(3)
    kernel = RBF(variance, lengthscales)
    g = torch.Generator().manual_seed(4)
    draws = torch.randn(20_000, ROWS, 2, generator=g, dtype=torch.float64)
    X = (mean + S.sqrt() * draws).flatten(0, 1)
    K = kernel(grid_inputs(nodes), X)
    sampled = K @ K.T / len(draws)
    exact = grid_sums(mean, S, nodes, lengthscales, variance, Y=Y)[2]
    torch.testing.assert_close(exact, sampled, rtol=0.05, atol=0.05)


def test_covariance_is_the_kernel_matrix_of_the_inputs() -> None:
    (mean, S, nodes, lengthscales, variance), Y = problem()
    sums = GridPsiSums(mean, S, nodes, lengthscales, variance, Y)
    Z = grid_inputs(nodes)
    torch.testing.assert_close(sums.covariance, RBF(variance, lengthscales)(Z, Z))
