"""Poisson factors: the bound, its terms and its optima, by other routes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import gamma
from torch import Tensor
from torch.distributions import Gamma, Poisson

from lvmcore.classical.poisson_factorisation import (
    SHAPES,
    CountTable,
    GammaPrior,
    GammaWeights,
    _gamma_shape,
    _inverse_digamma,
    counts_bound,
    infer_weights,
)

ROWS, COLUMNS = GammaPrior(0.7, 1.4, 2.0), GammaPrior(0.4, 3.0, 0.8)


def table(n: int = 12, d: int = 6, *, gaps: bool = False, seed: int = 0) -> CountTable:
    rng = np.random.default_rng(seed)
    mean = rng.gamma(0.6, 4.0, (n, 2)) @ rng.gamma(0.8, 1.0, (2, d))
    counts = torch.as_tensor(rng.poisson(mean).astype(float))
    if not gaps:
        return CountTable(counts)
    observed = torch.as_tensor((rng.random((n, d)) > 0.3).astype(float))
    return CountTable(counts * observed, observed)


def weights(size: int, prior: GammaPrior, seed: int, Q: int = 2) -> GammaWeights:
    generator = torch.Generator().manual_seed(seed)
    return GammaWeights.draw((size, Q), prior, torch.zeros(1), generator)


def sweep(
    data: CountTable, rows: GammaWeights, columns: GammaWeights
) -> tuple[GammaWeights, GammaWeights]:
    rows = rows.update(data, columns, ROWS)
    return rows, columns.update(data.transposed, rows, COLUMNS)


def bound(data: CountTable, rows: GammaWeights, columns: GammaWeights) -> Tensor:
    cells = counts_bound(data, rows, columns).sum()
    return cells - rows.divergence(ROWS).sum() - columns.divergence(COLUMNS).sum()


def test_the_divergence_is_that_of_draws() -> None:
    q = replace(weights(3, ROWS, 0), rates_shape=4.2)
    torch.manual_seed(0)
    theta = Gamma(q.shape, q.rate).sample((200_000,))
    own = Gamma(torch.tensor(q.rates_shape).double(), q.rates_rate)
    xi = own.sample((200_000,))
    log_q = Gamma(q.shape, q.rate).log_prob(theta).sum(-1) + own.log_prob(xi)
    prior = Gamma(torch.tensor(ROWS.rate_shape).double(), torch.tensor(ROWS.rate_rate).double())
    shape = torch.tensor(ROWS.shape).double()
    log_p = Gamma(shape, xi[..., None]).log_prob(theta).sum(-1) + prior.log_prob(xi)
    drawn = log_q - log_p
    error = drawn.std(0) / len(drawn) ** 0.5
    assert ((q.divergence(ROWS) - drawn.mean(0)).abs() < 5 * error).all()


@pytest.mark.parametrize("gaps", [False, True])
def test_the_bound_is_below_the_evidence_of_draws(gaps: bool) -> None:
    """log p(Y) of a small table by importance sampling around q, close above the bound."""
    data = table(4, 3, gaps=gaps)
    rows, columns = weights(4, ROWS, 1, Q=1), weights(3, COLUMNS, 2, Q=1)
    for _ in range(300):
        rows, columns = sweep(data, rows, columns)
    torch.manual_seed(0)
    total = torch.zeros(200_000, dtype=torch.float64)
    drawn = []
    for q, prior in ((rows, ROWS), (columns, COLUMNS)):
        proposal = Gamma(q.shape / 2, q.rate / 2)
        theta = proposal.sample((len(total),)).clamp_min(1e-300)
        total += (prior.log_density(theta) - proposal.log_prob(theta).sum(-1)).sum(1)
        drawn.append(theta)
    cells = Poisson((drawn[0] @ drawn[1].transpose(1, 2)).clamp_min(1e-300)).log_prob(data.counts)
    total += (cells if data.observed is None else cells * data.observed).sum((1, 2))
    evidence = float(total.logsumexp(0)) - np.log(len(total))
    gap = evidence - float(bound(data, rows, columns))
    assert 0 < gap < 3


@pytest.mark.parametrize("gaps", [False, True])
def test_the_bound_never_falls_and_ends_where_its_gradients_are_0(gaps: bool) -> None:
    data = table(gaps=gaps)
    rows, columns = weights(12, ROWS, 3), weights(6, COLUMNS, 4)
    before = -np.inf
    for _ in range(4000):
        rows, columns = sweep(data, rows, columns)
        reached = float(bound(data, rows, columns))
        assert reached >= before - 1e-9
        before = reached
    logs = [
        part.log().requires_grad_()
        for side in (rows, columns)
        for part in (side.shape, side.rate, side.rates_rate)
    ]
    sides = [
        replace(side, shape=a.exp(), rate=b.exp(), rates_rate=c.exp())
        for side, (a, b, c) in zip((rows, columns), (logs[:3], logs[3:]), strict=True)
    ]
    bound(data, *sides).backward()
    assert max(float(part.grad.abs().max()) for part in logs if part.grad is not None) < 1e-4


def test_a_missing_cell_is_as_if_its_column_were_not_in_the_row() -> None:
    data, columns = table(1, 6), weights(6, COLUMNS, 5)
    keep = torch.tensor([0, 1, 3, 4])
    observed = torch.zeros(1, 6, dtype=torch.float64)
    observed[:, keep] = 1
    some = CountTable(data.counts * observed, observed)
    less = CountTable(data.counts[:, keep])
    fewer = columns.take(keep)
    found, wanted = (
        infer_weights(one, side, ROWS, rounds=4000, settled=1e-13)
        for one, side in ((some, columns), (less, fewer))
    )
    torch.testing.assert_close(found.mean, wanted.mean, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(
        counts_bound(some, found, columns), counts_bound(less, wanted, fewer), rtol=1e-8, atol=1e-8
    )


def test_a_row_is_inferred_alike_alone_and_at_the_optimum_of_the_fit() -> None:
    data, columns = table(), weights(6, COLUMNS, 6)
    rows = weights(12, ROWS, 7)
    for _ in range(6000):
        rows = rows.update(data, columns, ROWS)
    found = infer_weights(data, columns, ROWS, rounds=6000, settled=1e-13)
    torch.testing.assert_close(found.mean, rows.mean, rtol=1e-6, atol=1e-8)
    alone = infer_weights(data.take(torch.tensor([4])), columns, ROWS, rounds=6000, settled=1e-13)
    torch.testing.assert_close(alone.mean[0], found.mean[4], rtol=1e-9, atol=1e-11)


def test_the_learned_prior_is_the_optimum_of_a_search() -> None:
    q = weights(40, ROWS, 8)
    q = replace(q, rates_shape=3.3, rates_rate=torch.linspace(1, 9, 40).double())
    found = q.best_prior()

    def loss(log_values: np.ndarray) -> float:
        return float(q.divergence(GammaPrior(*np.exp(log_values))).sum())

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9})
    values = [found.shape, found.rate_shape, found.rate_rate]
    np.testing.assert_allclose(np.exp(best.x), values, rtol=1e-4)
    assert float(q.divergence(found).sum()) <= best.fun + 1e-9


def test_a_change_of_scale_moves_weights_and_prior_alike() -> None:
    q = weights(5, ROWS, 9)
    torch.testing.assert_close(q.scaled(7.0).mean, 7 * q.mean)
    torch.testing.assert_close(
        q.scaled(7.0).divergence(ROWS.scaled(7.0)), q.divergence(ROWS), rtol=1e-10, atol=1e-10
    )


def test_the_density_of_weights_is_the_integral_over_their_rate() -> None:
    point = np.array([0.3, 2.1, 0.9])

    def integrand(xi: float) -> float:
        weights_at = gamma.pdf(point, ROWS.shape, scale=1 / xi).prod()
        return float(weights_at * gamma.pdf(xi, ROWS.rate_shape, scale=1 / ROWS.rate_rate))

    found = float(ROWS.log_density(torch.as_tensor(point)))
    assert found == pytest.approx(np.log(quad(integrand, 0, 60)[0]), abs=1e-6)


def test_shapes_of_priors_are_solved_for_and_bounded() -> None:
    for x in (0.002, 0.3, 1.0, 40.0, 5000.0):
        at = torch.tensor(x, dtype=torch.float64)
        assert _inverse_digamma(float(at.digamma())) == pytest.approx(x, rel=1e-9)
        assert _gamma_shape(float(at.log() - at.digamma())) == pytest.approx(x, rel=1e-6)
    assert _inverse_digamma(-1e9) == SHAPES[0]
    assert _inverse_digamma(50.0) == SHAPES[1]
    assert (_gamma_shape(0.0), _gamma_shape(1e9)) == (SHAPES[1], SHAPES[0])
