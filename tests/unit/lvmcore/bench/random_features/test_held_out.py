"""The benchmark of rows held out: its integral, its split, and what its rows compare."""

import numpy as np
import pytest
import torch

from lvmcore.bench.harness.report import Options
from lvmcore.bench.random_features import held_out


def test_the_grid_gives_the_marginal_of_a_linear_map() -> None:
    """y = x A + ε has N(0, AᵀA + σ² I)."""
    rng = np.random.default_rng(0)
    A, noise = torch.as_tensor(rng.normal(size=(2, 4))), 0.3
    Y = torch.as_tensor(rng.normal(size=(6, 4)))

    def log_density(Y: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(X @ A, noise).log_prob(Y).sum(-1)

    covariance = A.T @ A + noise**2 * torch.eye(4, dtype=torch.float64)
    law = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), covariance)
    found = held_out.grid_log_marginal(log_density, Y)
    np.testing.assert_allclose(found, law.log_prob(Y), atol=1e-4)


@pytest.mark.usefixtures("data_dir")
def test_rows_say_how_far_behind_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"RFLVM": ([-7.0, -7.0], [50.0, 70.0]), "SRFLVM": ([-7.1, -7.3], [4.0, 8.0])}
    monkeypatch.setattr(held_out, "_measure_seeds", lambda data, name: told[name])
    made = [maker() for maker in held_out.rows(Options())]
    assert len({row.name for row in made}) == len(made) == 8
    behind, share = made[2], made[3]
    assert behind.value == pytest.approx(100 * 0.2 / 7)
    assert not behind.holds
    assert share.value == pytest.approx(0.1)
    assert made[0].settings["model"] == "RFLVM"
    assert made[1].settings["model"] == "SRFLVM"
