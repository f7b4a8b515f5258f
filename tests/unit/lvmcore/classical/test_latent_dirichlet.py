"""Rows of counts are placed where plain rounds, as long as they last, would bring them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln
from torch import Tensor

from lvmcore.classical import latent_dirichlet
from lvmcore.classical.latent_dirichlet import TopicPosterior

SETTLED = 1e-9


def topics(n: int, columns: int, alpha: float, seed: int, shape: float = 1.0) -> TopicPosterior:
    drawn = np.random.default_rng(seed).gamma(shape, 20.0, (n, columns)) + 0.1
    return TopicPosterior(torch.as_tensor(drawn), alpha, 0.5)


def plain(found: TopicPosterior, Y: Tensor, gamma: np.ndarray, rounds: int) -> np.ndarray:
    """γ after so many plain rounds, in NumPy and SciPy."""
    lam = found.concentration.numpy()
    weights = np.exp(digamma(lam) - digamma(lam.sum(1))[:, None])
    for _ in range(rounds):
        before = gamma
        share = np.exp(digamma(gamma) - digamma(gamma.sum(1))[:, None])
        gamma = found.topic_prior + share * (Y.numpy() / (share @ weights) @ weights.T)
        if np.abs(gamma - before).max() <= 1e-14 * gamma.sum(1).min():
            break
    return gamma


def bounds(found: TopicPosterior, Y: Tensor, gamma: np.ndarray) -> np.ndarray:
    """Each row's part of the bound, but for what no γ changes, in NumPy and SciPy."""
    lam = found.concentration.numpy()
    weights = np.exp(digamma(lam) - digamma(lam.sum(1))[:, None])
    log_share = digamma(gamma) - digamma(gamma.sum(1))[:, None]
    fit = (Y.numpy() * np.log(np.exp(log_share) @ weights)).sum(1)
    crossed = ((found.topic_prior - gamma) * log_share).sum(1)
    return np.asarray(fit + crossed + gammaln(gamma).sum(1) - gammaln(gamma.sum(1)))


def table(rows: int, columns: int, seed: int) -> Tensor:
    """Counts of rows from none to many, the first of none and the last of one huge count."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(0.3, 30.0, (rows, 1)) * rng.dirichlet(np.full(columns, 0.5), rows)
    counts = rng.poisson(means).astype(float)
    counts[0] = 0.0
    counts[-1, rng.integers(columns)] = 1e6
    return torch.as_tensor(counts)


def check(found: TopicPosterior, Y: Tensor, seed: int, mostly: float = 0.0) -> None:
    # From where no two topics are alike: where they are, rounding alone would choose.
    start = np.random.default_rng(seed).gamma(5.0, 0.2, (len(Y), len(found.concentration)))
    gamma = found.infer(Y, torch.as_tensor(start), rounds=100_000, settled=SETTLED).numpy()
    moved = np.abs(plain(found, Y, gamma, 1) - gamma).max(1)
    assert (moved <= (SETTLED + 1e-13) * gamma.sum(1)).all()
    expected = plain(found, Y, start, 20_000)
    reached, best = (bounds(found, Y, at) for at in (gamma, expected))
    assert (reached >= best - 1e-9 * (1 + np.abs(best))).all()
    # Elsewhere only where that is higher: another optimum, or plain rounds that still creep.
    same = reached <= best + 1e-9 * (1 + np.abs(best))
    assert same[0]
    assert same.mean() >= mostly
    total = expected.sum(1, keepdims=True)
    np.testing.assert_allclose((gamma / total)[same], (expected / total)[same], atol=1e-4)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    n=st.integers(1, 6),
    columns=st.integers(1, 12),
    rows=st.integers(2, 8),
    alpha=st.sampled_from([0.1, 0.3, 1.0, 2.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_row_is_where_plain_rounds_would_bring_it(
    n: int, columns: int, rows: int, alpha: float, seed: int
) -> None:
    found, Y = topics(n, columns, alpha, seed), table(rows, columns, seed)
    check(found, Y, seed)


def test_of_many_rows_nearly_all_are_where_plain_rounds_would_bring_them() -> None:
    check(topics(5, 12, 0.2, seed=6), table(60, 12, seed=7), 8, mostly=0.95)


def creeping() -> tuple[TopicPosterior, Tensor]:
    """Rows of topics that are hard to tell apart: plain rounds creep."""
    return topics(4, 10, 0.25, seed=1, shape=8.0), 5 * table(30, 10, seed=2)


def test_no_row_minds_the_rows_beside_it() -> None:
    found, Y = creeping()
    together = found.infer(Y, rounds=100_000, settled=SETTLED)
    for i in range(len(Y)):
        alone = found.infer(Y[i : i + 1], rounds=100_000, settled=SETTLED)
        np.testing.assert_allclose(together[i], alone[0], rtol=1e-5)


def test_rows_that_creep_take_far_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    found, Y = creeping()
    usual, placed = TopicPosterior._round, []

    def counted(
        self: TopicPosterior, Y: Tensor, gamma: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        placed.append(len(Y))
        return usual(self, Y, gamma, weights)

    monkeypatch.setattr(TopicPosterior, "_round", counted)
    found.infer(Y, rounds=100_000, settled=SETTLED)
    quick = sum(placed)
    placed.clear()
    monkeypatch.setattr(latent_dirichlet, "PLAIN_ROUNDS", 100_000)
    found.infer(Y, rounds=100_000, settled=SETTLED)
    assert 4 * quick < sum(placed)


@pytest.mark.parametrize("factor", [0.0, 1e-3, 1e6, float("nan")])
def test_an_extrapolation_that_lies_lower_is_thrown_away(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, Y = topics(3, 8, 1.0, seed=3), table(20, 8, seed=4)

    def astray(
        first: Tensor, second: Tensor, third: Tensor, reach: Tensor
    ) -> tuple[Tensor, Tensor]:
        wrong = third.clone()
        wrong[:, 0] *= factor
        return wrong, reach

    monkeypatch.setattr(latent_dirichlet, "_extrapolate", astray)
    check(found, Y, 5, mostly=0.9)


def test_bound_of_the_rows_is_that_of_all() -> None:
    found, Y = creeping()
    weights = latent_dirichlet._geometric_weights(found.concentration)
    here = torch.as_tensor(np.random.default_rng(5).gamma(2.0, size=(len(Y), 4)))
    there, expected = found._round(Y, here, weights)
    after = found._round(Y, there, weights)[1]
    each = [found._row_bounds(Y, *at).numpy()[:, 0] for at in ((here, expected), (there, after))]
    np.testing.assert_allclose(each[0], bounds(found, Y, here.numpy()), rtol=1e-12)
    assert (each[1] > each[0])[1:].all()
    gained = found.bound(Y, there) - found.bound(Y, here)
    assert gained == pytest.approx((each[1] - each[0]).sum())
