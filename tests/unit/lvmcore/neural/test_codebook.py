"""The codebook: its codes by brute force, its average by a loop, its gradient by the definition."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.neural.codebook import (
    Codebook,
    CodebookObjective,
    UnusedCodes,
    code_perplexity,
    straight_through,
)
from lvmcore.neural.objective import AutoencoderNetworks
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.loop import train
from lvmcore.training.schedule import Schedule

K, Q, B = 7, 2, 40
BETA = 0.3


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=draws(seed), dtype=torch.float64)


def codebook(vectors: Tensor) -> Codebook:
    made = Codebook(len(vectors), vectors, draws())
    with torch.no_grad():
        made.vectors.copy_(vectors)
    return made


def test_rows_are_rounded_to_the_code_that_brute_force_finds() -> None:
    book, z = codebook(normal(K, Q)), normal(B, Q, seed=1)
    distances = [[float((x - e).square().sum()) for e in book.vectors.detach()] for x in z]
    expected = [row.index(min(row)) for row in distances]
    assert book.nearest(z).tolist() == expected
    counts = np.bincount(expected, minlength=K)
    np.testing.assert_allclose(book.shares(book.nearest(z)), counts / B)
    np.testing.assert_allclose(book.squared_distances(z), distances)


def test_perplexity_counts_equally_used_codes() -> None:
    def of(*shares: float) -> float:
        return float(code_perplexity(torch.tensor(shares, dtype=torch.float64)))

    assert of(1, 0, 0) == pytest.approx(1)
    assert of(0.25, 0.25, 0.25, 0.25) == pytest.approx(4)
    assert of(0.5, 0.25, 0.25) == pytest.approx(2**1.5)


def test_initial_codes_are_within_one_over_k() -> None:
    vectors = Codebook(50, normal(1, 3), draws()).vectors
    assert vectors.shape == (50, 3)
    assert 0.015 < float(vectors.detach().abs().max()) <= 1 / 50


def looped(
    vectors: NDArray[np.float64], batches: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Codes and running averages by the definition, unused codes to the nearest row."""
    e, N = vectors.copy(), np.zeros(len(vectors))
    for z in batches:
        distance = ((z[:, None] - e) ** 2).sum(2)
        chosen = distance.argmin(1)
        before = e.copy()
        for k in range(len(e)):
            N[k] = 0.99 * N[k] + 0.01 * (chosen == k).sum() / len(z)
            alpha = np.exp(-10 * len(e) * N[k] / 0.01 - 1e-3)
            nearest = z[distance[:, k].argmin()]
            e[k] = (1 - alpha) * before[k] + alpha * nearest
    return e, N


def test_usage_is_a_running_average_and_unused_codes_are_moved_as_by_a_loop() -> None:
    vectors = torch.cat([normal(3, Q), normal(4, Q) + 20])
    book = codebook(vectors)
    batches = [normal(B, Q, seed=seed) for seed in range(1, 6)]
    for z in batches:
        book.update(z, book.nearest(z), "nearest", draws())
    e, N = looped(vectors.numpy(), [z.numpy() for z in batches])
    np.testing.assert_allclose(book.usage, N)
    np.testing.assert_allclose(book.vectors.detach(), e)
    assert np.abs(e - vectors.numpy())[3:].min() > 5  # the far ones were moved


def test_codes_that_stay_only_have_their_usage_measured() -> None:
    book, z = codebook(normal(K, Q) + 20), normal(B, Q, seed=1)
    before = book.vectors.detach().clone()
    book.update(z, book.nearest(z), "stay", draws())
    assert torch.equal(book.vectors.detach(), before)
    np.testing.assert_allclose(book.usage, 0.01 * book.shares(book.nearest(z)))


def test_rows_are_drawn_by_their_distances() -> None:
    z = torch.tensor([[0.0], [1.0], [1.5]], dtype=torch.float64)
    n = 30_000
    book = codebook(torch.zeros(n, 1, dtype=torch.float64))  # of which one code is used
    book.update(z, torch.zeros(3, dtype=torch.long), "drawn", draws())
    moved = book.vectors.detach()[1:, 0] / np.exp(-1e-3)
    found = [float((moved - place).abs().lt(1e-9).double().mean()) for place in (0.0, 1.0, 1.5)]
    p = np.exp(-(z[:, 0].numpy() ** 2))
    np.testing.assert_allclose(found, p / p.sum(), atol=0.012)


@dataclass(frozen=True)
class Settings:
    n_hidden: int = 5
    batch_size: int = 100
    n_codes: int = K
    commitment: float = BETA
    unused_codes: UnusedCodes = "drawn"


def objective(settings: Settings, *, n: int = 30) -> CodebookObjective:
    Y = normal(n, 2) @ normal(2, 4, seed=1) + 0.1 * normal(n, 4, seed=2)
    Y = (Y - Y.mean(0)) / Y.std(0, correction=0)
    problem = FitProblem(InMemoryRows(Y), (), Q, draws(3), None)
    networks = AutoencoderNetworks(settings.n_hidden, problem, problem.table, Y)
    fit = CodebookObjective(settings, problem, networks)
    with torch.no_grad():
        fit.codebook.vectors.copy_(normal(settings.n_codes, Q, seed=4))
        for p in [*fit.encoder.parameters(), *fit.decoder.parameters()]:
            p.add_(0.2 * normal(*p.shape, seed=p.numel()))
    return fit


def test_the_loss_is_that_of_a_loop() -> None:
    fit = objective(Settings())
    total = np.zeros(3)
    e = fit.codebook.vectors.detach().numpy()
    for y in fit.Y:
        with torch.no_grad():
            z = fit.encoder(y[None])[0][0].numpy()
            k = ((z - e) ** 2).sum(1).argmin()
            out = fit.decoder(torch.as_tensor(e[k])[None])[0].numpy()
        apart = ((z - e[k]) ** 2).mean()
        total += [((y.numpy() - out) ** 2).mean(), apart, BETA * apart]
    scale = -2.0 / fit.Y.numel()
    terms = fit.terms()
    assert list(terms) == ["data fit", "codebook", "commitment"]
    found = [scale * float(term) for term in terms.values()]
    np.testing.assert_allclose(found, total / len(fit.Y))


def test_the_gradient_is_straight_through() -> None:
    fit = objective(Settings())
    torch.stack(list(fit.batch_terms().values())).sum().backward()
    with torch.no_grad():
        z, _ = fit.encoder(fit.Y)
        k = fit.codebook.nearest(z)
        e, D = fit.codebook.vectors[k], fit.Y.shape[1]
        # −½ ‖y − f(e)‖² by e, with f's slopes in closed form
        left = fit.Y - fit.decoder(e)
        by_e = torch.einsum("nd,nqd->nq", left, fit.decoder.slopes(e))
        by_z = by_e - BETA * D / Q * (z - e)  # that by e, and the commitment
        expected = torch.zeros_like(fit.codebook.vectors)
        expected.index_add_(0, k, D / Q * (z - e))  # the codebook's loss alone
    torch.testing.assert_close(fit.codebook.vectors.grad, expected)
    found = [p.grad for p in fit.encoder.parameters()]
    fit.encoder.zero_grad()
    (fit.encoder(fit.Y)[0] * by_z).sum().backward()  # Jᵀ of the encoder alone
    for gradient, parameter in zip(found, fit.encoder.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_straight_through_has_the_value_of_the_codes_and_the_slope_of_the_rows() -> None:
    z, e = normal(5, Q).requires_grad_(), normal(5, Q, seed=1)
    out = straight_through(z, e)
    torch.testing.assert_close(out.detach(), e)
    (3 * out).sum().backward()
    torch.testing.assert_close(z.grad, torch.full_like(e, 3.0))


def perplexity_after(unused: UnusedCodes) -> float:
    fit = objective(Settings(n_codes=16, unused_codes=unused), n=200)
    with torch.no_grad():
        fit.codebook.vectors[1:] += 100  # all but one are far from every row
    schedule = Schedule.for_batches(150, 0.01, fit.cells, n_rows=200, size=fit.batches.size)
    train(fit, schedule, None)
    codes = fit.codebook.nearest(fit.networks.encode()[0])
    return float(code_perplexity(fit.codebook.shares(codes)))


def test_codes_that_no_row_reaches_are_revived() -> None:
    assert perplexity_after("stay") < 1.5
    assert perplexity_after("drawn") > 8
    assert perplexity_after("nearest") > perplexity_after("stay") + 1
