"""R-hat and effective sample size on chains of which both are known."""

import numpy as np
import pytest
from scipy.signal import lfilter

from lvmcore.mcmc.diagnostics import chain_diagnostics, effective_sample_size, split_r_hat


def autoregressive(rho: float, chains: int, n: int, seed: int = 0) -> np.ndarray:
    """Stationary AR(1) of variance 1."""
    noise = np.random.default_rng(seed).standard_normal((chains, n + 500))
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=1)[:, 500:]


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_an_autoregression_is_worth_what_its_formula_says(rho: float) -> None:
    chains = autoregressive(rho, 4, 10_000)
    found = chain_diagnostics(chains)
    assert found.ess == pytest.approx(40_000 * (1 - rho) / (1 + rho), rel=0.15)
    assert 0.999 < found.r_hat < 1.01


def test_alternating_draws_are_worth_more_than_their_number() -> None:
    assert chain_diagnostics(autoregressive(-0.5, 2, 4000)).ess > 1.5 * 8000


def test_r_hat_and_ess_by_the_sums_of_their_definitions() -> None:
    halves = autoregressive(0.6, 3, 40, seed=1)
    C, n = halves.shape
    means = [sum(chain) / n for chain in halves]
    middle = sum(means) / C
    between = n * sum((mean - middle) ** 2 for mean in means) / (C - 1)
    variances = [
        sum((x - mean) ** 2 for x in chain) / (n - 1)
        for chain, mean in zip(halves, means, strict=True)
    ]
    within = sum(variances) / C
    plus = (n - 1) / n * within + between / n
    assert split_r_hat(halves) == pytest.approx(np.sqrt(plus / within))
    rho = []
    for lag in range(n):
        own = [
            sum((chain[t] - mean) * (chain[t + lag] - mean) for t in range(n - lag)) / (n - 1)
            for chain, mean in zip(halves, means, strict=True)
        ]
        rho.append(1 - (within - sum(own) / C) / plus)
    rho[0] = 1.0
    time, last = -1.0, np.inf
    for t in range(0, n - 1, 2):
        pair = rho[t] + rho[t + 1]
        if pair < 0:
            break
        last = min(last, pair)
        time += 2 * last
    assert effective_sample_size(halves) == pytest.approx(C * n / time)


def test_chains_in_two_places_do_not_agree() -> None:
    chains = autoregressive(0.0, 4, 1000)
    chains[1] += 3
    assert chain_diagnostics(chains).r_hat > 1.3
    assert chain_diagnostics(chains).ess < 20


def test_chains_of_two_widths_do_not_agree_in_their_tails() -> None:
    chains = autoregressive(0.0, 4, 1000)
    chains[:2] *= 5
    assert chain_diagnostics(chains).r_hat > 1.1


def test_a_chain_that_drifts_does_not_agree_with_itself() -> None:
    chains = autoregressive(0.0, 1, 1000) + np.linspace(0, 3, 1000)
    assert chain_diagnostics(chains).r_hat > 1.2


def test_far_outliers_change_little() -> None:
    chains = autoregressive(0.0, 4, 1000)
    chains[0, 7] = 1e12
    assert chain_diagnostics(chains).r_hat < 1.01


@pytest.mark.parametrize("draws", [np.ones((2, 100)), np.arange(14.0).reshape(2, 7)])
def test_nothing_is_told_of_constant_or_few_draws(draws: np.ndarray) -> None:
    assert np.isnan(chain_diagnostics(draws)).all()
