"""The objective of a fit by random features, term by term."""

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.paths import FullRows
from lvmcore.likelihoods.polya_gamma import Family, expected_precision, polya_gamma_constant
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.count_terms import CountTerm, LargeCountTerm, LogisticTerm, PoissonTerm
from lvmcore.random_features.gaussian_term import GaussianTerm
from lvmcore.random_features.weight_posterior import weighted_evidence


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def problem(Y: torch.Tensor, observed: torch.Tensor | None = None) -> FitProblem:
    return FitProblem(InMemoryRows(Y, observed), (), 2, torch.Generator().manual_seed(0), None)


def dense(Phi: torch.Tensor, Y: torch.Tensor, noise: torch.Tensor, seen: torch.Tensor) -> float:
    """Σ_d log N(y_d | 0, ΦΦᵀ + σ_d² I) over the observed rows of each column, by N × N matrices."""
    total = 0.0
    for d in range(Y.shape[1]):
        P, y = Phi[seen[:, d]], Y[seen[:, d], d]
        K = P @ P.T + noise[d] * torch.eye(len(y)).double()
        normal_d = torch.distributions.MultivariateNormal(torch.zeros(len(y)).double(), K)
        total += float(normal_d.log_prob(y))
    return total


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("columns", [4, 30])
def test_the_marginal_likelihood_is_the_dense_formula(
    shared: bool, gaps: bool, columns: int
) -> None:
    N = 9
    Y, Phi = normal(N, columns, seed=1), normal(N, 6, seed=2)
    seen = torch.as_tensor(np.random.default_rng(3).random((N, columns)) < 0.7)
    seen = seen if gaps else torch.ones_like(seen)
    term = GaussianTerm(problem(Y * seen, seen if gaps else None), n_features=6, shared=shared)
    with torch.no_grad():
        term.log_noise += 0.5 * normal(len(term.log_noise), seed=4)
        value = float(term.bound(Phi, step=True))
        assert value == pytest.approx(dense(Phi, Y, term.noise, seen), rel=1e-6)


@pytest.mark.parametrize("gaps", [True, False])
def test_the_decoder_predicts_as_the_dense_formula(gaps: bool) -> None:
    N, D = 9, 3
    Y, X = normal(N, D, seed=1), normal(N, 2, seed=2)
    seen = torch.as_tensor(np.random.default_rng(3).random((N, D)) < 0.7)
    seen = seen if gaps else torch.ones_like(seen)
    term = GaussianTerm(problem(Y * seen, seen if gaps else None), n_features=6, shared=False)
    features = term.features(normal(4, 2, seed=5))
    decoder: Any = term.decoder(features, X[None])
    new = normal(5, 2, seed=6)
    mean, variance = decoder.functions(new)
    noise = term.noise.detach()
    with torch.no_grad():
        for d in range(D):
            P, y, Q = features(X)[seen[:, d]], Y[seen[:, d], d], features(new)
            K = P @ P.T + noise[d] * torch.eye(len(y)).double()
            gain = torch.linalg.solve(K, P @ Q.T).T
            torch.testing.assert_close(mean[:, d], gain @ y, rtol=1e-5, atol=1e-6)
            left = (Q * Q).sum(1) - (gain * (Q @ P.T)).sum(1)
            torch.testing.assert_close(variance[:, d], left, rtol=1e-5, atol=1e-6)


def test_filled_cells_give_a_bound_that_each_step_raises_below_the_exact_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Y, X = normal(14, 5, seed=1), normal(14, 2, seed=2)
    seen = torch.as_tensor(np.random.default_rng(3).random((14, 5)) < 0.7)
    exact = GaussianTerm(problem(Y * seen, seen), n_features=4, shared=True)
    features = exact.features(normal(2, 2, seed=0))
    Phi = features(X).detach()
    monkeypatch.setattr("lvmcore.random_features.gaussian_term.MOST_PRODUCTS", 0)
    term = GaussianTerm(problem(Y * seen, seen), n_features=4, shared=True)
    with torch.no_grad():
        bounds = [float(term.bound(Phi, step=True)) for _ in range(200)]
        highest = float(exact.bound(Phi, step=True))
        assert np.all(np.diff(bounds) > -1e-9)
        assert highest - 3 < bounds[-1] < highest
        # They end as the exact weights fill them.
        assert term.filled is not None
        q: Any = exact.decoder(features, X[None])
        expected = torch.where(seen, Y, Phi @ q.weights.mean)
        torch.testing.assert_close(term.filled, expected, atol=1e-5, rtol=1e-5)


def test_one_missing_cell_a_column_is_filled_without_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Y, Phi = normal(8, 3, seed=1), normal(8, 4, seed=2)
    seen = torch.ones(8, 3, dtype=torch.bool)
    seen[[0, 3, 3], [0, 1, 2]] = False
    exact = GaussianTerm(problem(Y * seen, seen), n_features=4, shared=True)
    monkeypatch.setattr("lvmcore.random_features.gaussian_term.MOST_PRODUCTS", 0)
    term = GaussianTerm(problem(Y * seen, seen), n_features=4, shared=True)
    with torch.no_grad():
        for _ in range(300):
            bound = float(term.bound(Phi, step=True))
        assert bound == pytest.approx(float(exact.bound(Phi, step=True)), rel=1e-7)
    # The gradient at the optimum of what is filled is the exact one's.
    P = [Phi.clone().requires_grad_() for _ in range(2)]
    for one, features in zip((term, exact), P, strict=True):
        one.bound(features, step=True).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(P[0].grad, P[1].grad, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(term.log_noise.grad, exact.log_noise.grad, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", ["bernoulli", "binomial", "negative_binomial"])
def test_a_step_raises_the_bound_of_counts_and_the_gradient_is_right(kind: Family) -> None:
    rng = np.random.default_rng(0)
    most = {"bernoulli": 1, "binomial": 5, "negative_binomial": 20}[kind]
    Y = torch.as_tensor(rng.integers(0, most + 1, (12, 3)).astype(float))
    term = LogisticTerm(problem(Y), 4, kind, Y.amax(0) if kind == "binomial" else None)
    Phi = normal(12, 4, seed=1)
    with torch.no_grad():
        bounds = [float(term.bound(Phi, step=True)) for _ in range(20)]
    assert np.all(np.diff(bounds) > -1e-6)
    # With c held, the gradient by the features and by the dispersion is that of differences.
    family, c = term.family, term.c.clone()
    rest = family.log_coefficient(Y) + family.trials(Y) * polya_gamma_constant(c)
    omega = family.trials(Y) * expected_precision(c)
    A = torch.eye(4).double() + Phi.T @ (omega[:, 0, None] * Phi)
    b = Phi.T @ family.kappa(Y)[:, 0]
    first = 0.5 * b @ torch.linalg.solve(A, b) - 0.5 * torch.logdet(A) + rest[:, 0].sum()
    one = LogisticTerm(problem(Y[:, :1]), 4, kind, Y.amax(0)[:1] if kind == "binomial" else None)
    with torch.no_grad():
        one.log_size.copy_(term.log_size[:1])
    one.c.copy_(c[:, :1])
    value = one.bound(Phi, step=True)
    assert float(value.detach()) == pytest.approx(float(first.detach()))


def counted(seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).poisson(5.0, (12, 2)).astype(float))


def large(seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.as_tensor(rng.negative_binomial(20.0, 0.05, (12, 2)).astype(float))


for_sites = pytest.mark.parametrize(
    ("term_of", "table"), [(PoissonTerm, counted), (LargeCountTerm, large)]
)


@for_sites
def test_the_bound_of_sites_rises_to_below_the_evidence(
    term_of: type[PoissonTerm | LargeCountTerm], table: Callable[[], torch.Tensor]
) -> None:
    """Evidence by importance sampling from q(h), widened."""
    Y, Phi = table(), torch.cat([0.3 * normal(12, 2, seed=1), torch.ones(12, 1).double()], 1)
    term = term_of(problem(Y), 3)
    with torch.no_grad():
        bounds = [float(term.bound(Phi, step=True)) for _ in range(60)]
    assert bounds[-1] >= max(bounds) - 1e-6
    assert abs(bounds[-1] - bounds[-5]) < 1e-6
    omega, kappa = term.sites([Phi])
    _, mean, variance = weighted_evidence(Phi, omega, kappa)
    best = term.best_sites(slice(None), mean, variance, damped=False)
    torch.testing.assert_close((omega, kappa), best, rtol=0.02, atol=0.02)
    evidence = 0.0
    torch.manual_seed(0)
    for d in range(2):
        A = torch.eye(3).double() + Phi.T @ (omega[:, d, None] * Phi)
        q = torch.distributions.MultivariateNormal(
            torch.linalg.solve(A, Phi.T @ kappa[:, d]), 1.5 * torch.linalg.inv(A)
        )
        h = q.sample((50_000,))
        psi = (h @ Phi.T)[:, :, None].expand(-1, -1, 2)
        joint = term.family.to(Y).log_probability(Y, psi)[:, :, d].sum(1)
        joint = joint + torch.distributions.Normal(0, 1).log_prob(h).sum(1) - q.log_prob(h)
        evidence += float(joint.logsumexp(0)) - math.log(len(h))
    assert evidence - 0.3 < bounds[-1] < evidence + 0.02


@for_sites
def test_the_gradient_is_right_where_the_sites_are_best(
    term_of: type[PoissonTerm | LargeCountTerm], table: Callable[[], torch.Tensor]
) -> None:
    Y, Phi = table(), torch.cat([0.3 * normal(12, 2, seed=1), torch.ones(12, 1).double()], 1)
    term = term_of(problem(Y), 3)

    def settled(features: torch.Tensor) -> float:
        with torch.no_grad():
            for _ in range(80):
                value = float(term.bound(features, step=True))
        return value

    settled(Phi)
    free = Phi.clone().requires_grad_()
    term.bound(free, step=True).backward()  # type: ignore[no-untyped-call]
    assert free.grad is not None
    for n, r in ((0, 0), (5, 1), (11, 2)):
        step = torch.zeros_like(Phi)
        step[n, r] = 1e-5
        slope = (settled(Phi + step) - settled(Phi - step)) / 2e-5
        assert float(free.grad[n, r]) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_the_bound_of_large_counts_is_above_that_of_polya_gamma_variables() -> None:
    Y, Phi = large(), torch.cat([0.3 * normal(12, 2, seed=1), torch.ones(12, 1).double()], 1)
    sites, drawn = LargeCountTerm(problem(Y), 3), LogisticTerm(problem(Y), 3, "negative_binomial")
    torch.testing.assert_close(sites.family.size, drawn.family.size)
    with torch.no_grad():
        for _ in range(400):
            found = [float(term.bound(Phi, step=True)) for term in (sites, drawn)]
    assert found[0] > found[1] + 0.2


def test_the_gradient_of_large_counts_reaches_the_dispersion() -> None:
    Y, Phi = large(), torch.cat([0.3 * normal(12, 2, seed=1), torch.ones(12, 1).double()], 1)
    term = LargeCountTerm(problem(Y), 3)
    with torch.no_grad():
        for _ in range(80):
            term.bound(Phi, step=True)
    kept = [part.clone() for part in term.state()]
    term.bound(Phi, step=True).backward()  # type: ignore[no-untyped-call]
    assert term.log_size.grad is not None
    values = []
    for step in (-1e-5, 1e-5):
        for part, old in zip(term.state(), kept, strict=True):
            part.copy_(old)
        with torch.no_grad():
            term.log_size[0] += step
            values.append(float(term.bound(Phi, step=True)))
            term.log_size[0] -= step
    slope = (values[1] - values[0]) / 2e-5
    assert float(term.log_size.grad[0]) == pytest.approx(slope, rel=1e-4)


def test_the_gradient_reaches_the_dispersion() -> None:
    Y = torch.as_tensor(np.random.default_rng(0).poisson(4.0, (30, 2)).astype(float))
    term, Phi = LogisticTerm(problem(Y), 4, "negative_binomial"), 0.1 * normal(30, 3, seed=1)
    kept = term.c.clone()
    term.bound(Phi, step=True).backward()  # type: ignore[no-untyped-call]
    assert term.log_size.grad is not None
    for d in range(2):
        values = []
        for step in (-1e-5, 1e-5):
            term.c.copy_(kept)
            with torch.no_grad():
                term.log_size[d] += step
                values.append(float(term.bound(Phi, step=True)))
                term.log_size[d] -= step
        slope = (values[1] - values[0]) / 2e-5
        assert float(term.log_size.grad[d]) == pytest.approx(slope, rel=1e-4)


def test_gaps_leave_the_sum_of_counts() -> None:
    rng = np.random.default_rng(0)
    Y = torch.as_tensor(rng.poisson(3.0, (14, 2)).astype(float))
    seen = torch.ones(14, 2, dtype=torch.bool)
    seen[10:] = False
    Phi = normal(14, 3, seed=1)
    gapped = LogisticTerm(problem(Y * seen, seen), 4, "negative_binomial")
    fewer = LogisticTerm(problem(Y[:10]), 4, "negative_binomial")
    with torch.no_grad():
        torch.testing.assert_close(gapped.bound(Phi, step=False), fewer.bound(Phi[:10], step=False))


@pytest.fixture
def two_columns_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lvmcore.random_features.count_terms.MOST_PRODUCTS", 0)
    monkeypatch.setattr("lvmcore.random_features.count_terms.FEWEST_COLUMNS", 2)


def kinds_of(Y: torch.Tensor, seen: torch.Tensor) -> list[CountTerm]:
    cells = problem(Y * seen, seen)
    return [
        LogisticTerm(cells, 3, "negative_binomial"),
        LogisticTerm(cells, 3, "binomial", Y.amax(0) + 1),
        PoissonTerm(cells, 3),
        LargeCountTerm(cells, 3),
    ]


@pytest.mark.usefixtures("two_columns_a_step")
@pytest.mark.parametrize("kind", range(4))
def test_the_average_over_all_subsets_of_columns_is_the_bound_and_its_gradient(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    Y = torch.as_tensor(rng.poisson(3.0, (12, 4)).astype(float))
    seen = torch.as_tensor(rng.random((12, 4)) < 0.8)
    whole, term = kinds_of(Y, seen)[kind], kinds_of(Y, seen)[kind]
    free = [normal(12, 3, seed=1).requires_grad_() for _ in range(2)]
    value = whole.bound_of(slice(None), free[0], step=True)
    value.backward()  # type: ignore[no-untyped-call]
    began = [sites.clone() for sites in term.sites_state()]
    subsets = [torch.tensor(pair) for pair in combinations(range(4), 2)]
    total = torch.zeros(()).double()
    for subset in subsets:
        for sites, start in zip(term.sites_state(), began, strict=True):
            sites.copy_(start)
        monkeypatch.setattr(term.batches, "next", lambda subset=subset: subset)
        total = total + term.bound(free[1], step=True) / len(subsets)
        others = [d for d in range(4) if d not in subset]
        for sites, start, moved in zip(
            term.sites_state(), began, whole.sites_state(), strict=True
        ):  # the columns of a step end as they would among all; the others stay
            assert torch.equal(sites[:, others], start[:, others])
            torch.testing.assert_close(sites[:, subset], moved[:, subset])
    total.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(total.detach(), value.detach())
    torch.testing.assert_close(free[1].grad, free[0].grad)
    for held, other in zip(term.frozen_in_warm_up(), whole.frozen_in_warm_up(), strict=True):
        torch.testing.assert_close(held.grad, other.grad)


@pytest.mark.usefixtures("two_columns_a_step")
def test_every_column_has_its_turn_and_the_final_bound_is_that_of_all() -> None:
    Y = torch.as_tensor(np.random.default_rng(0).poisson(3.0, (12, 6)).astype(float))
    term = LogisticTerm(problem(Y), 3, "negative_binomial")
    Phi, began = normal(12, 3, seed=1), term.c.clone()
    assert term.at_a_time == 2
    for step in range(1, 4):
        with torch.no_grad():
            term.bound(Phi, step=True)
        assert int((term.c != began).any(0).sum()) == 2 * step
    whole = term.bound_of(slice(None), Phi, step=False)
    torch.testing.assert_close(term.bound(Phi, step=False), whole)


def test_a_table_that_is_not_large_takes_all_columns_a_step() -> None:
    Y = torch.as_tensor(np.random.default_rng(0).poisson(3.0, (300, 10)).astype(float))
    term = LogisticTerm(problem(Y), 100, "negative_binomial")
    assert term.at_a_time == 10
    assert len(term.state()) == 1


def test_full_rows_draw_what_they_say() -> None:
    rows = FullRows(normal(3, 2, seed=0), 0.3)
    with torch.no_grad():
        rows.below += 0.4
        drawn = rows.draw(100_000, torch.arange(3), torch.Generator().manual_seed(0))
        L = rows.factor
        covariance = L @ L.mT
        torch.testing.assert_close(rows.variance, covariance.diagonal(dim1=1, dim2=2))
        away = drawn - drawn.mean(0)
        got = torch.einsum("snq,snr->nqr", away, away) / len(away)
        torch.testing.assert_close(got, covariance, rtol=0.05, atol=0.01)
        expected = sum(
            float(
                torch.distributions.kl_divergence(
                    torch.distributions.MultivariateNormal(rows.mean[n], covariance[n]),
                    torch.distributions.MultivariateNormal(
                        torch.zeros(2).double(), torch.eye(2).double()
                    ),
                )
            )
            for n in range(3)
        )
        assert float(rows.kl()) == pytest.approx(expected)
        assert math.isfinite(expected)
