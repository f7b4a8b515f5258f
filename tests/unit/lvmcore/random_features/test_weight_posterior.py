"""Linear functions of features under quadratic terms, against dense algebra."""

import math

import numpy as np
import pytest
import torch

from lvmcore.random_features.weight_posterior import column_posteriors, weighted_evidence

N, D, R = 12, 3, 5


def problem(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    Phi, kappa = rng.standard_normal((N, R)), rng.standard_normal((N, D))
    omega = rng.gamma(2.0, size=(N, D)) * (rng.random((N, D)) < 0.8)
    return torch.as_tensor(Phi), torch.as_tensor(omega), torch.as_tensor(kappa)


def test_it_is_the_evidence_of_gaussian_observations_by_the_dense_formula() -> None:
    Phi, omega, _ = problem()
    omega = omega.clamp_min(0.1)
    Y = torch.as_tensor(np.random.default_rng(1).standard_normal((N, D)))
    value, _, _ = weighted_evidence(Phi, omega, omega * Y)
    rest = -0.5 * (math.log(2 * math.pi) - omega.log() + omega * Y.square()).sum()
    dense = torch.zeros(()).double()
    for d in range(D):
        K = Phi @ Phi.T + torch.diag(1 / omega[:, d])
        dense += torch.distributions.MultivariateNormal(torch.zeros(N).double(), K).log_prob(
            Y[:, d]
        )
    torch.testing.assert_close(value + rest, dense)


def test_mean_and_variance_of_psi_are_those_of_the_weights() -> None:
    Phi, omega, kappa = problem()
    _, mean, variance = weighted_evidence(Phi, omega, kappa)
    M, F = column_posteriors([Phi], omega, kappa)
    torch.testing.assert_close(mean, Phi @ M)
    for d in range(D):
        A = torch.eye(R).double() + Phi.T @ (omega[:, d, None] * Phi)
        torch.testing.assert_close(F[d] @ F[d].T, torch.linalg.inv(A))
        torch.testing.assert_close(M[:, d], torch.linalg.solve(A, Phi.T @ kappa[:, d]))
        torch.testing.assert_close(variance[:, d], (Phi @ F[d]).square().sum(1))


def test_several_draws_are_averaged() -> None:
    Phi, omega, kappa = problem()
    other = problem(seed=5)[0]
    M, F = column_posteriors([Phi, other], omega, kappa)
    A = torch.eye(R).double()
    A = A + 0.5 * sum(P.T @ (omega[:, 1, None] * P) for P in (Phi, other))
    torch.testing.assert_close(F[1] @ F[1].T, torch.linalg.inv(A))
    b = 0.5 * (Phi + other).T @ kappa[:, 1]
    torch.testing.assert_close(M[:, 1], torch.linalg.solve(A, b))


def test_gradients() -> None:
    tensors = [t.clone().requires_grad_() for t in problem()]
    assert torch.autograd.gradcheck(lambda *t: weighted_evidence(*t)[0], tensors)


@pytest.mark.parametrize("most_by_column", [0, 1e9])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, most_by_column: float) -> None:
    whole = weighted_evidence(*problem())
    module = "lvmcore.random_features.weight_posterior"
    monkeypatch.setattr(f"{module}.CHUNK_CELLS", 1)
    monkeypatch.setattr(f"{module}.MAX_COLUMN_PRODUCTS", most_by_column)
    monkeypatch.setattr(f"{module}.MIN_PAIR_COLUMNS", 0)
    for one, other in zip(weighted_evidence(*problem()), whole, strict=True):
        torch.testing.assert_close(one, other)


def test_products_made_once_for_all_columns_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def all_of_it() -> list[torch.Tensor]:
        tensors = [t.clone().requires_grad_() for t in problem()]
        found = weighted_evidence(*tensors)
        found[0].backward()  # type: ignore[no-untyped-call]
        slopes = [t.grad for t in tensors]
        posteriors = column_posteriors([problem()[0], problem(5)[0]], *problem()[1:])
        return [*found, *slopes, *posteriors]  # type: ignore[list-item]

    by_column = all_of_it()
    monkeypatch.setattr("lvmcore.random_features.weight_posterior.MAX_COLUMN_PRODUCTS", 0)
    monkeypatch.setattr("lvmcore.random_features.weight_posterior.MIN_PAIR_COLUMNS", 0)
    for one, other in zip(all_of_it(), by_column, strict=True):
        torch.testing.assert_close(one, other)
