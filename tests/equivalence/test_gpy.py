"""Psi statistics, bound and gradients against values that GPy 1.15 computed (reference/)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lvmcore.gp.bounds import collapsed_bound
from lvmcore.kernels.psi_statistics import psi1, psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.gaussians import kl_standard_normal

REFERENCE = json.loads((Path(__file__).parent / "reference" / "gpy.json").read_text())
LEAVES = ("mean", "variance", "Z", "lengthscales", "kernel_variance", "noise")


def tensor(value: Any) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.fixture
def leaves() -> dict[str, Tensor]:
    return {name: tensor(REFERENCE["input"][name]).requires_grad_() for name in LEAVES}


def bound(leaves: dict[str, Tensor]) -> Tensor:
    """The bound without KL_X, all columns sharing one noise variance."""
    Y = tensor(REFERENCE["input"]["Y"])
    kernel = RBF(leaves["kernel_variance"], leaves["lengthscales"])
    sums = psi_sums(kernel, leaves["mean"], leaves["variance"], leaves["Z"], Y)
    Kuu = kernel(leaves["Z"], leaves["Z"])
    noise = leaves["noise"].expand(Y.shape[1])
    value, _ = collapsed_bound(sums, Kuu, noise, Y.square().sum(0), len(Y))
    return value


@torch.no_grad()
def test_psi_statistics(leaves: dict[str, Tensor]) -> None:
    kernel = RBF(leaves["kernel_variance"], leaves["lengthscales"])
    arguments = kernel, leaves["mean"], leaves["variance"], leaves["Z"]
    sums = psi_sums(*arguments, tensor(REFERENCE["input"]["Y"]))
    torch.testing.assert_close(psi1(*arguments), tensor(REFERENCE["psi1"]), rtol=1e-10, atol=0)
    torch.testing.assert_close(sums.psi2, tensor(REFERENCE["psi2"]), rtol=1e-10, atol=0)
    assert float(sums.psi0) == pytest.approx(REFERENCE["psi0"], rel=1e-12)


@torch.no_grad()
def test_divergence_and_bound(leaves: dict[str, Tensor]) -> None:
    kl = kl_standard_normal(leaves["mean"], leaves["variance"]).sum()
    assert float(kl) == pytest.approx(REFERENCE["kl"], rel=1e-12)
    assert float(bound(leaves)) == pytest.approx(REFERENCE["bound"], rel=1e-7)
    assert float(bound(leaves) - kl) == pytest.approx(REFERENCE["bound_less_kl"], rel=1e-7)


@pytest.mark.parametrize("name", LEAVES)
def test_gradient(leaves: dict[str, Tensor], name: str) -> None:
    value = bound(leaves) - kl_standard_normal(leaves["mean"], leaves["variance"]).sum()
    (gradient,) = torch.autograd.grad(value, leaves[name])
    expected = tensor(REFERENCE["gradient"][name])
    scale = float(expected.abs().max())
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-7 * scale)
