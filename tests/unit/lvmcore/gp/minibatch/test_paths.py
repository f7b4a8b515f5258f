"""Bounds from mini-batches against the collapsed bound, explicit covariances, and an optimiser."""

from typing import Literal

import pytest
import torch
from torch import Tensor

from lvmcore.gp.bounds import collapsed_bound, stochastic_bound
from lvmcore.gp.minibatch.cell_sums import CellSums
from lvmcore.gp.minibatch.data_path import InducingMoments, StochasticDataPath
from lvmcore.gp.minibatch.label_path import StochasticLabelPath
from lvmcore.gp.minibatch.masked_path import MaskedStochasticDataPath
from lvmcore.gp.paths import LabelPath
from lvmcore.kernels.psi_statistics import PsiSums, psi1, psi_sums
from lvmcore.numerics.gaussians import kl_whitened
from lvmcore.numerics.linalg import cholesky
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.batches import ROWS_PER_INDUCING, Batches, step_length
from tests.unit.lvmcore.small_problems import Small, small_problem

C = 3


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def data_path(p: Small) -> StochasticDataPath:
    path = StochasticDataPath(p.Z, p.noise, InMemoryRows(p.Y))
    with torch.no_grad():
        path.log_variance.fill_(0.3)
        path.log_lengthscales.copy_(torch.tensor([-0.1, 0.4]))
    return path


def sums_of(path: StochasticDataPath, p: Small, rows: slice = slice(None)) -> PsiSums:
    return psi_sums(path.kernel, p.mean[rows], p.variance[rows], path.Z, p.Y[rows])


def collapsed(path: StochasticDataPath, p: Small) -> Tensor:
    bound, _ = collapsed_bound(
        sums_of(path, p), path.kernel(path.Z, path.Z), path.noise, p.squares, len(p.Y)
    )
    return bound


def unlike(path: StochasticDataPath, p: Small) -> None:
    """Leave q(V) at the optimum for other data."""
    with torch.no_grad():
        other = small_problem(N=7, seed=5)
        path.follow(*path.whiten(sums_of(path, other)), 1.0)


# ---- data ----------------------------------------------------------------------------------------


def test_a_batch_of_all_rows_is_the_collapsed_bound_with_its_gradient() -> None:
    p = small_problem()
    path, reference = data_path(p), data_path(p)
    unlike(path, p)
    got = path.batch_bound(sums_of(path, p), p.Y)
    expected = collapsed(reference, p)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-9)
    parameters = [path.Z, path.log_lengthscales, path.log_variance, path.log_noise]
    others = [reference.Z, reference.log_lengthscales, reference.log_variance, reference.log_noise]
    for mine, theirs in zip(
        torch.autograd.grad(got, parameters), torch.autograd.grad(expected, others), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-8)


@torch.no_grad()
def test_any_q_gives_the_bound_of_its_explicit_covariance() -> None:
    p = small_problem()
    path = data_path(p)
    unlike(path, p)
    q, sums = path.moments(), sums_of(path, p)
    G, P = path.whiten(sums)
    got = q.expected_fit(G, P, sums.psi0, p.squares, path.noise, len(p.Y)) - q.kl()
    L, _ = cholesky(path.kernel(path.Z, path.Z), "Kuu")
    mean = q.vectors @ q.mean
    eye = torch.eye(len(L), dtype=L.dtype)
    covariance = eye - torch.einsum("im,md,jm->dij", q.vectors, q.shrinkage, q.vectors)
    fit = stochastic_bound(sums, L, mean, covariance, path.noise, p.squares, len(p.Y))
    expected = fit - kl_whitened(mean.T, torch.linalg.cholesky(covariance))
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    assert float(got) < float(collapsed(path, p))


@torch.no_grad()
def test_batches_estimate_without_bias() -> None:
    """Over a partition into equal batches the estimates at one q(V) average to the full bound."""
    p = small_problem(N=12)
    path = data_path(p)
    unlike(path, p)
    q, sums = path.moments(), sums_of(path, p)
    G, P = path.whiten(sums)
    full = q.expected_fit(G, P, sums.psi0, p.squares, path.noise, 12) - q.kl()
    parts = [slice(start, start + 3) for start in range(0, 12, 3)]
    estimates = [path.batch_bound(sums_of(path, p, rows), p.Y[rows]) for rows in parts]
    torch.testing.assert_close(torch.stack(estimates).mean(), full, rtol=1e-10, atol=1e-10)
    assert float(torch.stack(estimates).std()) > 0.1


def test_the_gradient_of_batches_is_unbiased_too() -> None:
    p = small_problem(N=12)
    path = data_path(p)
    unlike(path, p)
    parameters = [path.Z, path.log_lengthscales, path.log_variance]
    state = [tensor.detach().clone() for tensor in (path.G, path.P, path.log_noise)]

    def restore() -> None:
        with torch.no_grad():
            for tensor, value in zip((path.G, path.P, path.log_noise), state, strict=True):
                tensor.copy_(value)

    def gradients(rows: slice) -> tuple[Tensor, ...]:
        restore()
        bound = path.batch_bound(sums_of(path, p, rows), p.Y[rows])
        return torch.autograd.grad(bound, parameters)

    parts = [gradients(slice(start, start + 4)) for start in range(0, 12, 4)]
    restore()
    q, sums = path.moments(), sums_of(path, p)
    fit = q.expected_fit(*path.whiten(sums), sums.psi0, p.squares, path.noise, 12)
    for i, full in enumerate(torch.autograd.grad(fit, parameters)):
        mean = torch.stack([part[i] for part in parts]).mean(0)
        torch.testing.assert_close(mean, full, rtol=1e-8, atol=1e-9)


@torch.no_grad()
def test_following_is_a_step_in_the_natural_parameters() -> None:
    """Precision I + G/σ² and precision × mean of every column move a share ρ of the way."""
    p = small_problem()
    path = data_path(p)
    unlike(path, p)
    before = path.moments()
    G, P = path.whiten(sums_of(path, p))
    towards = InducingMoments.best(G, P, path.noise)
    path.follow(G, P, 0.3)
    after = path.moments()

    def natural(q: InducingMoments, d: int) -> tuple[Tensor, Tensor]:
        V = q.vectors
        precision = V @ torch.diag(1 / (1 - q.shrinkage[:, d])) @ V.T
        return precision, precision @ V @ q.mean[:, d]

    for d in range(p.Y.shape[1]):
        for start, end, got in zip(
            natural(before, d), natural(towards, d), natural(after, d), strict=True
        ):
            torch.testing.assert_close(got, 0.7 * start + 0.3 * end, rtol=1e-9, atol=1e-9)


def test_batches_in_turn_lead_to_the_neighbourhood_of_the_optimum() -> None:
    p = small_problem(N=400, M=5)
    path = data_path(p)
    unlike(path, p)
    batches = Batches(400, 50, torch.Generator().manual_seed(0))
    for _ in range(60):
        rows = batches.next()
        sums = psi_sums(path.kernel, p.mean[rows], p.variance[rows], path.Z, p.Y[rows])
        path.batch_bound(sums, p.Y[rows])
    q, sums = path.moments(), sums_of(path, p)
    with torch.no_grad():
        fit = q.expected_fit(*path.whiten(sums), sums.psi0, p.squares, path.noise, 400) - q.kl()
        best = collapsed(path, p)
        assert float(best) - 5 < float(fit) <= float(best)
        torch.testing.assert_close(path.best_bound(sums), best, rtol=1e-10, atol=1e-9)


def with_an_unknown_column(*, shared: bool) -> tuple[Small, Tensor, StochasticDataPath]:
    """200 rows whose last column the map knows nothing of."""
    p = small_problem(N=200, D=4)
    Y = torch.cat([p.Y[:, :3], normal(200, 1, seed=8)], 1)
    noise = torch.full((1 if shared else 4,), 0.1, dtype=torch.float64)
    return p, Y, StochasticDataPath(p.Z, noise, InMemoryRows(Y))


@torch.no_grad()
@pytest.mark.parametrize("shared", [False, True])
def test_the_noise_starts_at_what_is_left_unexplained(*, shared: bool) -> None:
    p, Y, path = with_an_unknown_column(shared=shared)
    half = slice(0, 200, 2)
    sums = psi_sums(path.kernel, p.mean[half], p.variance[half], path.Z, Y[half])
    path.prime(sums, Y[half])
    assert float(path.noise.min()) > 0.1 - 1e-12
    if not shared:
        assert 0.8 < float(path.noise[3]) < 1.5
        assert float(path.noise[:3].max()) < float(path.noise[3]) - 0.2
    G, P = path.whiten(sums)
    torch.testing.assert_close((path.G, path.P), (2 * G, 2 * P))


@pytest.mark.slow(quick=["True"])
@pytest.mark.parametrize("shared", [False, True])
def test_the_noise_follows_to_its_best_value(*, shared: bool) -> None:
    """The value at which the bound of all rows is stationary in the noise."""
    p, Y, path = with_an_unknown_column(shared=shared)
    batches = Batches(200, 20, torch.Generator().manual_seed(0))
    for _ in range(400):
        rows = batches.next()
        sums = psi_sums(path.kernel, p.mean[rows], p.variance[rows], path.Z, Y[rows])
        path.batch_bound(sums, Y[rows])
    free = torch.full_like(path.noise, 0.1).detach().requires_grad_()
    optimiser = torch.optim.LBFGS([free], max_iter=100, line_search_fn="strong_wolfe")
    sums = psi_sums(path.kernel, p.mean, p.variance, path.Z, Y)
    kernel = path.kernel(path.Z, path.Z).detach()
    frozen = PsiSums(*(part.detach() for part in (sums.psi0, sums.psi1Y, sums.psi2)))

    def loss() -> Tensor:
        optimiser.zero_grad()
        bound, _ = collapsed_bound(frozen, kernel, free.expand(4), Y.square().sum(0), 200)
        (-bound).backward()  # type: ignore[no-untyped-call]
        return -bound.detach()

    optimiser.step(loss)
    torch.testing.assert_close(path.noise.detach(), free.detach(), rtol=0.1, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 50])
@pytest.mark.parametrize("gaps", [False, True])
def test_little_noise_is_found_by_small_batches(*, gaps: bool, size: int) -> None:
    """What few rows leave scatters widely, so that neither its logarithm nor a floor averages."""
    X = normal(4000, 2, seed=1)
    f = torch.tanh(X @ normal(2, 3, seed=2))
    Y = f / f.std(0) + 0.1 * normal(4000, 3, seed=3)
    observed = normal(4000, 3, seed=4) > -1 if gaps else None
    Y = Y if observed is None else torch.where(observed, Y, 0.0)
    made = MaskedStochasticDataPath if gaps else StochasticDataPath
    start = torch.ones(3, dtype=torch.float64)
    path, best = (made(X[:25].clone(), start, InMemoryRows(Y, observed)) for _ in range(2))
    certain = torch.full_like(X, 1e-6)
    batches = Batches(4000, size, torch.Generator().manual_seed(0))
    for _ in range(400 if size == 50 else 2500):
        rows = batches.next()
        seen = None if observed is None else observed[rows]
        sums = path.sums(X[rows], certain[rows], Y[rows], seen)
        path.batch_bound(sums, Y[rows], None, seen)
    with torch.no_grad():
        sums = best.sums(X, certain, Y, observed)
        best.follow(*best.whiten(sums), 1.0)
        for _ in range(40):
            left = best._noise_parameters(
                best._residual_variance(best._error(sums, Y), CellSums.of(Y, observed))
            )
            best.log_noise.copy_(left.log())
    # Few rows more are left unexplained by what other few rows say.
    torch.testing.assert_close(path.noise, best.noise, rtol=0.25 if size == 50 else 0.4, atol=0)
    assert float(path.noise.detach().max()) < 0.05


@pytest.mark.slow
def test_a_column_seldom_observed_spoils_no_other() -> None:
    X = normal(4000, 2, seed=1)
    f = torch.tanh(X @ normal(2, 3, seed=2))
    Y = f / f.std(0) + 0.3 * normal(4000, 3, seed=3)
    seldom = torch.rand(4000, generator=torch.Generator().manual_seed(4)) < 0.005
    observed = torch.ones(4000, 3, dtype=torch.bool)
    observed[:, 2] = seldom
    Y[:, 2] = torch.where(seldom, normal(4000, seed=5), 0.0)
    start = torch.full((3,), 0.5).double()
    path = MaskedStochasticDataPath(X[:25].clone(), start, InMemoryRows(Y, observed))
    certain = torch.full_like(X, 1e-6)
    batches = Batches(4000, 100, torch.Generator().manual_seed(0))
    for _ in range(400):
        rows = batches.next()
        sums = path.sums(X[rows], certain[rows], Y[rows], observed[rows])
        path.batch_bound(sums, Y[rows], None, observed[rows])
    noise = path.noise.detach()
    # Half of the average is what the two others may not fall below.
    assert float(noise[:2].min()) > 0.45 * float(noise.mean())
    assert 0.4 < float(noise[2]) < 3
    assert float(noise[:2].max()) < 0.8 * float(noise[2])


def test_q_follows_batches_that_hold_less_than_a_row_of_cells() -> None:
    p = small_problem(N=40, D=3)
    observed = torch.rand(40, 3, generator=torch.Generator().manual_seed(1)) < 0.1
    observed[0] = True
    Y = torch.where(observed, p.Y, 0.0)
    path = MaskedStochasticDataPath(p.Z, p.noise, InMemoryRows(Y, observed))
    rows = slice(0, 2)
    sums = path.sums(p.mean[rows], p.variance[rows], Y[rows], observed[rows])
    path.batch_bound(sums, Y[rows], None, observed[rows])
    assert float(path.G.abs().max()) > 0


def test_the_noise_of_a_column_that_is_rarely_anything_but_0_is_known() -> None:
    p = small_problem(N=2000, D=3)
    Y = torch.cat([p.Y, torch.zeros(2000, 1).double()], 1)
    Y[::500, 3] = 500**0.5
    path = StochasticDataPath(p.Z, torch.full((4,), 0.5).double(), InMemoryRows(Y))
    batches = Batches(2000, 20, torch.Generator().manual_seed(0))
    found = []
    for _ in range(300):
        rows = batches.next()
        sums = psi_sums(path.kernel, p.mean[rows], p.variance[rows], path.Z, Y[rows])
        path.batch_bound(sums, Y[rows])
        found.append(float(path.noise[3].detach()))
    # Most batches see none of the four: the mean of these alone would be nothing.
    assert 0.7 < min(found[100:]) <= max(found[100:]) < 2.5


@torch.no_grad()
def test_cells_far_out_do_not_lead_q_astray() -> None:
    p = small_problem(N=12)
    path, tame = data_path(p), data_path(p)
    Y = p.Y.clone()
    Y[1, 0] = 200.0
    with torch.enable_grad():
        rows = slice(0, 4)
        beyond = Y - Y.clamp(-6, 6)
        sums = psi_sums(path.kernel, p.mean[rows], p.variance[rows], path.Z, Y[rows])
        K = psi1(path.kernel, p.mean[rows], p.variance[rows], path.Z).detach()
        path.batch_bound(sums, Y[rows], K.T @ beyond[rows])
        near = Y.clamp(-6, 6)[rows]
        tame.batch_bound(psi_sums(tame.kernel, p.mean[rows], p.variance[rows], tame.Z, near), near)
    torch.testing.assert_close((path.G, path.P), (tame.G, tame.P), rtol=1e-7, atol=1e-9)


@torch.no_grad()
def test_the_frozen_path_predicts_as_the_collapsed_one() -> None:
    p = small_problem()
    path = data_path(p)
    sums = sums_of(path, p)
    _, q = collapsed_bound(sums, path.kernel(path.Z, path.Z), path.noise, p.squares, len(p.Y))
    X = 2 * normal(6, 2)
    for got, expected in zip(
        path.decoder(path.optimum(sums)).predict(X), path.decoder(q).predict(X), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-8)


# ---- labels --------------------------------------------------------------------------------------

X_LABELS = 1.5 * normal(24, 2, seed=3)
CODES = (X_LABELS[:, 0] + 0.5 * normal(24, seed=4) > 0).long() + (X_LABELS[:, 1] > 0.8).long()
SIGNS = 2.0 * torch.nn.functional.one_hot(CODES, C).double() - 1
WEIGHTS = torch.linspace(0.5, 2.0, 24, dtype=torch.float64)


def follow(path: StochasticLabelPath, rho: float) -> Tensor:
    """The label term at q(V), which then takes a natural-gradient step."""
    total = path.expected_log_likelihood(X_LABELS[None], SIGNS, WEIGHTS)
    path.natural_gradient_step(rho)
    return total


def label_path(link: Literal["probit", "softmax"]) -> StochasticLabelPath:
    path = StochasticLabelPath(small_problem().Z, C, link)
    with torch.no_grad():
        path.log_variance.fill_(0.5)
    return path


@pytest.mark.parametrize("link", ["probit", "softmax"])
def test_natural_steps_reach_the_optimum_that_an_optimiser_finds(
    link: Literal["probit", "softmax"],
) -> None:
    path = label_path(link)
    for _ in range(60):
        follow(path, 0.5)
    with torch.no_grad():
        got = follow(path, 0.5) - path.kl()

    explicit = LabelPath(small_problem().Z, C, link)
    with torch.no_grad():
        explicit.log_variance.fill_(0.5)
    free = [explicit.q_mu, explicit.q_sqrt]
    optimiser = torch.optim.LBFGS(free, max_iter=400, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        fit = explicit.expected_log_likelihood(X_LABELS[None], SIGNS, WEIGHTS)
        value = explicit.kl() - fit
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)
    best = -float(loss().detach())
    # The softmax is averaged over draws, so the two meet where those draws agree.
    assert float(got) == pytest.approx(best, abs=1e-3 if link == "probit" else 0.05)
    mean, variance = path.latent_function(X_LABELS)
    expected_mean, expected_variance = explicit.latent_function(X_LABELS)
    tolerance = 0.02 if link == "probit" else 0.1
    torch.testing.assert_close(mean, expected_mean, rtol=0, atol=tolerance)
    torch.testing.assert_close(variance, expected_variance, rtol=0, atol=tolerance)


def test_the_label_term_is_that_of_the_explicit_path() -> None:
    """With q(V) copied over, value and gradient agree for any points and weights."""
    path = label_path("probit")
    follow(path, 0.6)
    explicit = LabelPath(small_problem().Z, C)
    with torch.no_grad():
        explicit.log_variance.fill_(0.5)
        covariance = torch.linalg.inv(path.precision)
        explicit.q_mu.copy_((covariance @ path.shift[:, :, None])[:, :, 0])
        explicit.q_sqrt.copy_(torch.linalg.cholesky(covariance))
    X = normal(2, 24, 2, seed=9).requires_grad_()
    torch.testing.assert_close(path.kl(), explicit.kl(), rtol=1e-9, atol=1e-9)
    expected = explicit.expected_log_likelihood(X, SIGNS, WEIGHTS)
    got = path.expected_log_likelihood(X, SIGNS, WEIGHTS)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(
        torch.autograd.grad(got, [X, path.Z, path.log_lengthscales, path.log_variance]),
        torch.autograd.grad(
            expected, [X, explicit.Z, explicit.log_lengthscales, explicit.log_variance]
        ),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)


@torch.no_grad()
def test_looking_at_the_label_term_changes_nothing() -> None:
    path = label_path("probit")
    before = path.precision.clone(), path.shift.clone()
    follow(path, 0.6)
    torch.testing.assert_close((path.precision, path.shift), before, rtol=0, atol=0)
    assert float(path.kl()) == pytest.approx(0.0, abs=1e-12)  # q(V) is the prior


@pytest.mark.parametrize("link", ["probit", "softmax"])
def test_frozen_labels_equal_the_path(link: Literal["probit", "softmax"]) -> None:
    path = label_path(link)
    for _ in range(3):
        follow(path, 0.6)
    with torch.no_grad():
        X = 2 * normal(7, 2, seed=2)
        for got, expected in zip(path.decoder().predict(X), path.latent_function(X), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)


# ---- batches -------------------------------------------------------------------------------------


def test_a_pass_sees_every_row_once_and_the_next_another_order() -> None:
    batches = Batches(12, 4, torch.Generator().manual_seed(0))
    passes = [torch.cat([batches.next() for _ in range(3)]) for _ in range(2)]
    for order in passes:
        assert order.sort().values.tolist() == list(range(12))
    assert passes[0].tolist() != passes[1].tolist()


def test_rows_left_over_wait_for_another_pass() -> None:
    batches = Batches(10, 4, torch.Generator().manual_seed(0))
    seen = torch.cat([batches.next() for _ in range(60)])
    assert len(seen) == 240
    counts = torch.bincount(seen, minlength=10)
    assert int(counts.min()) > 12  # 24 each on average


def test_a_small_table_is_one_batch_in_its_own_order() -> None:
    batches = Batches(5, 100, torch.Generator())
    assert batches.whole
    assert batches.next().tolist() == [0, 1, 2, 3, 4]
    assert batches.buffers() == []


def test_batches_go_on_from_their_state() -> None:
    generator = torch.Generator().manual_seed(1)
    batches = Batches(20, 6, generator)
    for _ in range(2):
        batches.next()
    kept = [tensor.clone() for tensor in batches.buffers()], generator.get_state()
    expected = [batches.next().tolist() for _ in range(5)]
    other = torch.Generator()
    again = Batches(20, 6, other)
    for tensor, value in zip(again.buffers(), kept[0], strict=True):
        tensor.copy_(value)
    other.set_state(kept[1])
    assert [again.next().tolist() for _ in range(5)] == expected


def test_step_lengths() -> None:
    assert step_length(ROWS_PER_INDUCING * 20, 20) == 0.5
    assert step_length(10**9, 20) == pytest.approx(1.0, abs=1e-3)
    assert step_length(10**9, 20, most=0.7) == 0.7
