"""Sums of random features some rows at a time, against the products of all rows at once."""

import numpy as np
import pytest
import torch

import lvmcore.random_features.fourier_sums
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.fourier_sums import feature_sums
from lvmcore.random_features.gaussian_term import FeatureSample, GaussianTerm


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


@pytest.fixture
def few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lvmcore.random_features.fourier_sums, "BLOCK_ROWS", 7)


def leaves() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    points, scale, X = normal(5, 2, seed=1), torch.tensor(1.7).double(), normal(23, 2, seed=2)
    return points.requires_grad_(), scale.requires_grad_(), X.requires_grad_()


def test_sums_and_gradients_are_those_of_all_rows_at_once(few_rows_at_a_time: None) -> None:
    Y, weight_G, weight_P = normal(23, 3, seed=3), normal(10, 10, seed=4), normal(10, 3, seed=5)

    def whole(
        features: RandomFourierFeatures, X: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        Phi = features(X)
        return Phi.T @ Phi, Phi.T @ Y

    found = []
    for sums in (whole, lambda features, X: feature_sums(features, X, Y)):
        points, scale, X = leaves()
        G, P = sums(RandomFourierFeatures(points, scale), X)
        ((weight_G * G).sum() + (weight_P * P.square()).sum()).backward()
        found.append([G, P, points.grad, scale.grad, X.grad])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_differences(few_rows_at_a_time: None) -> None:
    Y = normal(23, 3, seed=3)
    assert torch.autograd.gradcheck(
        lambda points, scale, X: feature_sums(RandomFourierFeatures(points, scale), X, Y), leaves()
    )


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("columns", [4, 40])
@pytest.mark.parametrize("gaps", [True, False])
def test_the_bound_at_places_is_that_of_their_features(
    few_rows_at_a_time: None, shared: bool, columns: int, gaps: bool
) -> None:
    points, _, X = leaves()
    Y = normal(23, columns, seed=6)
    seen = torch.as_tensor(np.random.default_rng(7).random(Y.shape) < 0.8) if gaps else None
    table = InMemoryRows(Y if seen is None else Y * seen, seen)
    problem = FitProblem(table, (), 2, torch.Generator().manual_seed(0), None)
    found = []
    for by_places in (True, False):
        term = GaussianTerm(problem, n_features=10, shared=shared)
        if by_places:
            value = term.value(FeatureSample(points, X, step=True))
        else:
            value = term.bound(term.features(points)(X), step=True)
        found.append([value, *torch.autograd.grad(value, [points, X, *term.parameters()])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-7)
