"""Rows whose cells leave several places open: every place with its weight."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.latent_inference import infer_modes, infer_rows
from lvmcore.gp.paths import DataPath, LatentRows


@pytest.fixture(scope="module")
def folded() -> tuple[DataDecoder, Tensor, Tensor]:
    """y_1 = x² cannot tell left from right, y_2 = x can; a decoder that knows both well."""
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)[:, None]
    Y = torch.cat([x.square(), x], 1)
    path = DataPath(x[::4], torch.full((2,), 1e-3, dtype=torch.float64))
    rows = LatentRows(x, 1e-4)
    with torch.no_grad():
        q = path.optimal_inducing(rows, Y, Y.square().sum(0))
        return path.decoder(q), rows.mean.detach(), rows.variance.detach()


@torch.no_grad()
def test_both_sides_of_a_fold_are_found_and_weighted_alike(
    folded: tuple[DataDecoder, Tensor, Tensor],
) -> None:
    Y = torch.tensor([[1.44, torch.nan], [torch.nan, 1.2], [torch.nan, torch.nan]]).double()
    mean, variance, weights = infer_modes(folded[0], Y, *folded[1:], starts=6)
    torch.testing.assert_close(weights.sum(1), torch.ones(3, dtype=torch.float64))
    kept = weights[0] > 0.01
    assert sorted(mean[0, kept, 0].tolist()) == pytest.approx([-1.2, 1.2], abs=0.05)
    assert weights[0, kept].tolist() == pytest.approx([0.5, 0.5], abs=0.05)
    assert mean[1, weights[1] > 0.01, 0].tolist() == pytest.approx([1.2], abs=0.05)
    # Without any cell there is the prior alone.
    assert weights[2].tolist() == [1.0] + [0.0] * 5
    assert (mean[2, 0].item(), variance[2, 0].item()) == (0.0, 1.0)


@torch.no_grad()
def test_weights_follow_the_bounds_of_the_optima(
    folded: tuple[DataDecoder, Tensor, Tensor],
) -> None:
    decoder, places, spreads = folded
    Y = torch.linspace(0.1, 3.8, 8, dtype=torch.float64)[:, None].repeat(1, 2)
    Y[:, 1] = torch.nan
    mean, variance, weights = infer_modes(decoder, Y, places, spreads, starts=10)
    prior = Normal(torch.zeros(1, dtype=torch.float64), 1.0)
    several = 0
    for n in range(8):
        kept = torch.nonzero(weights[n] > 0)[:, 0]
        bounds = []
        for k in kept:
            q = mean[n, k], variance[n, k]
            fit = decoder.observed_rows(Y[n : n + 1]).expected_log_density(
                torch.tensor([0]), q[0][None], q[1][None]
            )
            bounds.append(fit[0] - kl_divergence(Normal(q[0], q[1].sqrt()), prior).sum())
        torch.testing.assert_close(weights[n, kept], torch.softmax(torch.stack(bounds), 0))
        several += len(kept) > 1
        # No two of them are the same optimum.
        for i in range(len(kept)):
            for j in range(i):
                away = (mean[n, kept[i]] - mean[n, kept[j]]).square()
                assert float((away / (variance[n, kept[i]] + variance[n, kept[j]])).sum()) > 0.99
    assert several
    best, spread = infer_rows(decoder, Y, places, spreads, starts=10)
    torch.testing.assert_close(mean[:, 0].abs(), best.abs(), rtol=0, atol=1e-4)
    torch.testing.assert_close(variance[:, 0], spread, rtol=1e-3, atol=1e-5)
