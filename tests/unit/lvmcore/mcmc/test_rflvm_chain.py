"""The whole sampler: draws of parameters and data by two routes agree (Geweke 2004).

One route draws everything from the prior and the data given it. The other sweeps the parameters
given the data and draws the data given the parameters, in turn. If every move leaves the posterior
as it is, both give the same joint distribution, whatever the data.
"""

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import nbinom, norm

from lvmcore.kernels.catalogue import read_kernel
from lvmcore.mcmc import position_moves, rflvm_chain
from lvmcore.mcmc.diagnostics import effective_sample_size
from lvmcore.mcmc.feature_weights import Likelihood, draw_rows
from lvmcore.mcmc.frequency_mixture import FrequencyMixture, draw_mixture
from lvmcore.mcmc.kernel_frequencies import KernelFrequencies
from lvmcore.mcmc.position_moves import HamiltonianMove
from lvmcore.mcmc.rflvm_chain import RFLVMChain, initial_chain

N, D, Q, L, K = 4, 2, 1, 2, 2
LIKELIHOODS: list[Likelihood] = ["gaussian", "bernoulli", "negative_binomial"]
SWEEPS, FRESH = 4000, 3000
#: A kernel of frequencies and of weights that move.
KERNEL = "matern32(z1) + rbf(z1)"


@pytest.fixture(autouse=True)
def narrow_priors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Priors whose draws have moments, and counts of a few digits."""
    monkeypatch.setattr(rflvm_chain, "NOISE_PRIOR", (3.0, 1.0))
    monkeypatch.setattr(rflvm_chain, "SCALE_PRIOR", (4.0, 3.0))
    monkeypatch.setattr(rflvm_chain, "DISPERSION_PRIOR", (4.0, 2.0))
    monkeypatch.setattr(rflvm_chain, "OFFSET_PRECISION", 4.0)
    monkeypatch.setattr(position_moves, "LEAPFROG_STEPS", 5)


def kernel_frequencies() -> KernelFrequencies:
    """Two frequencies with amplitudes that differ."""
    return KernelFrequencies(read_kernel(KERNEL), L, Q, np.random.default_rng(0))


def from_prior(
    likelihood: Likelihood, rng: np.random.Generator, kernel: KernelFrequencies | None = None
) -> RFLVMChain:
    """Parameters from the prior and data given them; the state of a kernel is overwritten."""
    mixture = draw_mixture(K, L, Q, rng) if kernel is None else kernel
    shape, rate = rflvm_chain.SCALE_PRIOR
    scale = rate / rng.gamma(shape)
    H = np.sqrt(scale) * rng.standard_normal((2 * L, D))
    if likelihood != "gaussian":
        H = np.vstack([H, rng.standard_normal(D) / np.sqrt(rflvm_chain.OFFSET_PRECISION)])
    noise = rflvm_chain.NOISE_PRIOR[1] / rng.gamma(rflvm_chain.NOISE_PRIOR[0])
    shape, rate = rflvm_chain.DISPERSION_PRIOR
    spread = {
        "gaussian": np.array([noise]),
        "bernoulli": np.ones(0),
        "negative_binomial": rng.gamma(shape, 1 / rate, size=D),
    }[likelihood]
    U = np.zeros((L, Q))
    U = U if kernel is None else kernel.whiten(U)
    W = mixture.colour(rng.standard_normal(U.shape))
    X = rng.standard_normal((N, Q))
    leap = HamiltonianMove(np.log(0.35))
    chain = RFLVMChain(likelihood, np.zeros((N, D)), X, W, H, scale, spread, mixture, rng, leap)
    draw_data(chain)
    return chain


def draw_data(chain: RFLVMChain) -> None:
    psi = chain.features() @ chain.H
    chain.Y = draw_rows(chain.likelihood, psi, chain.spread, chain.rng)


def summary(chain: RFLVMChain) -> list[float]:
    """Functions of parameters and data with finite moments."""
    mixture = chain.mixture
    used = isinstance(mixture, FrequencyMixture)
    near = np.exp(-np.square(chain.X[:, 0] - chain.X[0, 0])).mean()
    psi = chain.features() @ chain.H
    return [
        float(np.square(chain.X).mean()),
        near,
        float(np.log(np.abs(chain.W)).mean()),
        float(np.log(chain.scale)),
        float(np.square(chain.H).mean()),
        float(np.log(chain.spread).mean()) if chain.spread.size else 0.0,
        float(np.exp(-mixture.concentration)) if used else float(mixture.amplitudes[0]),
        float(mixture.used) if used else float(np.square(mixture.whiten(chain.W)).mean()),
        float(np.tanh(chain.Y).mean()),
        float(np.tanh(chain.Y[0] * chain.Y[1]).mean()),
        float((np.tanh(chain.Y) * np.tanh(psi)).mean()),
        float(np.tanh(chain.Y[:, 0] * chain.Y[:, 1]).mean()),
    ]


def z_scores(
    likelihood: Likelihood, kernel: KernelFrequencies | None = None, share: float = 1.0
) -> np.ndarray:
    rng = np.random.default_rng(11)
    n_fresh, n_sweeps = int(share * FRESH), int(share * SWEEPS)
    fresh = np.array([summary(from_prior(likelihood, rng, kernel)) for _ in range(n_fresh)])
    chain, swept = from_prior(likelihood, rng, kernel), []
    for _ in range(n_sweeps):
        chain.sweep()
        draw_data(chain)
        swept.append(summary(chain))
    moving = np.array(swept)
    told = np.flatnonzero(fresh.std(axis=0) > 0)
    worth = np.array([effective_sample_size(moving[:, i].reshape(2, -1)) for i in told])
    error = np.sqrt(fresh[:, told].var(axis=0) / n_fresh + moving[:, told].var(axis=0) / worth)
    return (moving[:, told].mean(axis=0) - fresh[:, told].mean(axis=0)) / error


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_two_routes_to_parameters_and_data_agree(likelihood: Likelihood) -> None:
    assert np.abs(z_scores(likelihood)).max() < 4


@pytest.mark.slow
def test_two_routes_agree_for_hyperparameters_of_a_kernel() -> None:
    assert np.abs(z_scores("gaussian", kernel_frequencies(), share=0.4)).max() < 4


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_slopes_of_a_move_with_a_kernel_are_differences(
    likelihood: Likelihood, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = []

    def compare(
        self: HamiltonianMove, start: Any, target: Any, rng: np.random.Generator, rate: float
    ) -> Any:
        slope = target(start)[1]
        for place in np.ndindex(start.shape):
            step = np.zeros_like(start)
            step[place] = 1e-5
            difference = (target(start + step)[0] - target(start - step)[0]) / 2e-5
            errors.append(abs(difference - slope[place]) / (1 + abs(difference)))
        return start

    chain = from_prior(likelihood, np.random.default_rng(6), kernel_frequencies())
    monkeypatch.setattr(HamiltonianMove, "move", compare)
    before = chain.W.copy()
    chain.sweep()
    np.testing.assert_array_equal(chain.W, before)  # the state is that of the position returned
    assert len(errors) == N + 4  # a lengthscale and a variance of each summand
    assert max(errors) < 1e-6


@pytest.mark.slow
def test_a_sampler_with_a_fault_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights drawn with half of their prior's precision, and nothing else."""
    usual = RFLVMChain._evidence

    def wrong(chain: RFLVMChain) -> rflvm_chain.WeightEvidence:
        found = usual(chain)
        return rflvm_chain.WeightEvidence(found.kappa, found.omega, 0.5 * found.precision)

    monkeypatch.setattr(RFLVMChain, "_evidence", wrong)
    assert np.abs(z_scores("bernoulli")).max() > 6


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_small_moves_keep_the_energy(likelihood: Likelihood, kernel: bool) -> None:
    """As they do where the slope is that of the density: the error is of the step's square."""
    chain, accepted = (
        from_prior(likelihood, np.random.default_rng(6), kernel_frequencies() if kernel else None),
        [],
    )
    for _ in range(40):
        chain.hamiltonian_move.log_step = np.log(0.005)
        chain.sweep()
        accepted.append(chain.hamiltonian_move.accepted)
    assert min(accepted) > 0.998


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_log_likelihood_is_that_of_scipy(likelihood: Likelihood) -> None:
    chain = from_prior(likelihood, np.random.default_rng(0))
    psi = chain.features() @ chain.H
    expected = {
        "gaussian": lambda: norm.logpdf(chain.Y, psi, np.sqrt(chain.spread)),
        "bernoulli": lambda: np.log(np.where(chain.Y == 1, expit(psi), expit(-psi))),
        "negative_binomial": lambda: nbinom.logpmf(chain.Y, chain.spread, expit(-psi)),
    }[likelihood]()
    assert chain.log_likelihood() == pytest.approx(expected.sum())


def test_polya_gamma_variables_have_their_mean() -> None:
    """E ω = b/(2ψ) tanh(ψ/2), b = 1 of a Bernoulli; κ = y − b/2."""
    chain = from_prior("bernoulli", np.random.default_rng(1))
    psi = chain.features() @ chain.H
    drawn = [chain._evidence() for _ in range(4000)]
    omega = np.mean([one.omega for one in drawn], axis=0)
    np.testing.assert_allclose(omega, np.tanh(psi / 2) / (2 * psi), rtol=0.06)
    np.testing.assert_array_equal(drawn[0].kappa, chain.Y - 0.5)


def test_a_dispersion_has_the_conditional_of_a_grid() -> None:
    """Along the line on which r e^ψ stays: log r rises, the offset falls."""
    chain = from_prior("negative_binomial", np.random.default_rng(2))
    chain.Y = chain.rng.poisson(4.0, size=(N, D)).astype(np.float64)
    psi, start, offset = chain.features() @ chain.H, np.log(chain.spread), chain.H[-1].copy()
    grid = np.linspace(-5, 6, 3000)
    shape, rate = rflvm_chain.DISPERSION_PRIOR
    drawn = []
    for _ in range(6000):
        chain._draw_dispersion(chain.features() @ chain.H)
        drawn.append(np.log(chain.spread))
    np.testing.assert_allclose(  # the mean of each cell has not changed
        chain.features() @ chain.H + np.log(chain.spread), psi + start, atol=1e-9
    )
    for d in range(D):
        log_p = shape * grid - rate * np.exp(grid)
        log_p += norm.logpdf(offset[d] - (grid - start[d]), 0, 0.5)
        for n in range(N):
            moved = psi[n, d] - (grid - start[d])
            log_p += nbinom.logpmf(chain.Y[n, d], np.exp(grid), expit(-moved))
        p = np.exp(log_p - log_p.max())
        expected = (grid * p).sum() / p.sum()
        values = np.array(drawn)[:, d]
        error = values.std() / np.sqrt(effective_sample_size(values.reshape(2, -1)))
        assert abs(values.mean() - expected) < 4 * error


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_chain_put_back_goes_the_same_way(likelihood: Likelihood, kernel: bool) -> None:
    chain = from_prior(
        likelihood, np.random.default_rng(3), kernel_frequencies() if kernel else None
    )
    chain.sweep(0.3)
    arrays = {name: value.copy() for name, value in chain.arrays().items()}
    facts = json.loads(json.dumps(chain.facts()))
    for _ in range(3):
        chain.sweep(0.3)
    other = from_prior(
        likelihood, np.random.default_rng(4), kernel_frequencies() if kernel else None
    )
    other.Y = chain.Y
    other.restore(arrays, facts)
    for _ in range(3):
        other.sweep(0.3)
    assert other.facts() == chain.facts()
    for name, value in chain.arrays().items():
        np.testing.assert_array_equal(other.arrays()[name], value)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_chain_starts_with_weights_that_know_the_data(likelihood: Likelihood) -> None:
    rng = np.random.default_rng(5)
    X = np.linspace(-1.5, 1.5, 60)[:, None]
    psi = np.column_stack([2 * X[:, 0], -X[:, 0] + 1])
    spread = {"gaussian": 0.01, "bernoulli": 0.0, "negative_binomial": 5.0}[likelihood]
    Y = draw_rows(likelihood, psi, np.full(2, spread), rng)
    chain = initial_chain(likelihood, Y, X, 10, 3, rng)
    plain = initial_chain(likelihood, rng.permutation(Y), X, 10, 3, rng)
    assert chain.log_likelihood() > plain.log_likelihood()
    assert chain.H.shape == (20 + (likelihood != "gaussian"), 2)
