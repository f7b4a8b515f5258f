"""The bound with a q(x) of each row's own: its estimates, its gradients, and what a step moves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lvmcore import StochasticGPLVM
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.minibatch.data_term import TableBatch
from lvmcore.gp.minibatch.objective import MinibatchObjective
from lvmcore.gp.minibatch.row_posteriors import RATE, LocalRows
from lvmcore.neural.latent_batch import draw_positions
from lvmcore.numerics.gaussians import kl_standard_normal
from lvmcore.preprocessing.table_rows import InMemoryRows

N, D, M, B = 40, 4, 6, 10


def objective(
    *, missing: bool = False, whole: bool = False, local: bool = True
) -> MinibatchObjective:
    """An objective of 40 rows on a curve, q(V) at its optimum for all rows."""
    generator = torch.Generator().manual_seed(0)
    t = torch.linspace(-2, 2, N, dtype=torch.float64)[:, None]
    noise = torch.randn(N, D, generator=generator, dtype=torch.float64)
    Y = torch.sin(t * torch.arange(1, D + 1)) + 0.3 * noise
    observed = None
    if missing:
        observed = torch.rand(N, D, generator=generator) > 0.2
        observed[7] = False
        Y = Y * observed
    problem = FitProblem(InMemoryRows(Y, observed), (), 2, generator, None)
    settings = StochasticGPLVM(batch_size=N if whole else B, n_hidden=8)
    fit = MinibatchObjective(settings, problem, torch.full((D,), 0.1).double(), M, local=local)
    with torch.no_grad():
        fit.path.follow(*fit.path.whiten(fit.whole_table().sums), 1.0)
    return fit


def batch_of(fit: MinibatchObjective, rows: torch.Tensor) -> TableBatch:
    Y, observed = fit.table.take(rows)
    mean, variance = fit.rows.place(rows, Y, observed)
    X = draw_positions(mean, variance.sqrt(), 1, fit.generator)
    return TableBatch(rows, mean, variance, X, N / len(rows), Y, observed)


@pytest.mark.parametrize("missing", [False, True])
def test_the_batches_of_a_pass_average_to_the_collapsed_bound(missing: bool) -> None:
    fit = objective(missing=missing)
    parts = torch.split(torch.randperm(N, generator=fit.generator), B)
    with torch.no_grad():
        found = [sum(fit.values(batch_of(fit, rows)).values()) for rows in parts]
    assert len(found) == 4
    assert float(torch.stack(found).mean()) == pytest.approx(fit.bound(), rel=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_the_estimate_from_samples_is_unbiased(missing: bool) -> None:
    fit = objective(missing=missing)
    fit.data.exact_psi = False
    with torch.no_grad():
        found = [
            float(sum(fit.values(batch_of(fit, torch.randperm(N)[:B])).values()))
            for _ in range(1500)
        ]
    error = np.std(found) / math.sqrt(len(found))
    assert error < 0.05 * abs(fit.bound())
    assert abs(np.mean(found) - fit.bound()) < 4 * error


def test_one_batch_of_all_rows_is_the_collapsed_bound() -> None:
    fit = objective(whole=True)
    terms = {name: term.detach() for name, term in fit.batch_terms().items()}
    assert float(sum(terms.values())) == pytest.approx(fit.bound(), rel=1e-10)
    mean, variance = fit.all_rows()
    kl = float(kl_standard_normal(mean, variance).sum())
    assert float(terms["KL of the map"]) == pytest.approx(-kl, rel=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_gradients_of_a_batch_are_those_of_differences(missing: bool) -> None:
    fit = objective(missing=missing)
    rows = torch.tensor([3, 7, 20, 31])
    held = fit.rows.parameters_by_row

    def estimate() -> torch.Tensor:
        return torch.stack(list(fit.values(batch_of(fit, rows)).values())).sum()

    with torch.no_grad():
        slopes = torch.zeros(len(rows), 4, dtype=torch.float64)
        for i, n in enumerate(rows.tolist()):
            for k in range(4):
                values = []
                for step in (1e-5, -1e-5):
                    held.values[n, k] += step
                    values.append(float(estimate()))
                    held.values[n, k] -= step
                slopes[i, k] = (values[0] - values[1]) / 2e-5
    estimate().backward()
    taken = held._taken
    assert taken is not None
    torch.testing.assert_close(taken[1].grad, slopes, rtol=1e-5, atol=1e-5)


def test_a_step_moves_the_rows_of_its_batch_alone() -> None:
    fit, moved = objective(), set()
    held = fit.rows.parameters_by_row
    for _ in range(4):
        before = held.values.clone()
        terms = fit.batch_terms()
        (-sum(terms.values())).backward()
        fit.step_rows(0.02)
        changed = torch.nonzero((held.values != before).any(1))[:, 0]
        position = int(fit.batches.position)
        batch = fit.batches.order[position - B : position]
        assert sorted(changed.tolist()) == sorted(batch.tolist())
        # the first step of Adam has the length of its rate, that of the rows
        away = (held.values - before)[batch].abs()
        torch.testing.assert_close(away, torch.full_like(away, RATE), rtol=1e-4, atol=0)
        moved |= set(changed.tolist())
    assert moved == set(range(N))


def test_a_row_without_cells_keeps_the_prior() -> None:
    fit = objective(missing=True)
    held = fit.rows.parameters_by_row
    assert not held.values[7].any()
    for _ in range(12):
        (-sum(fit.batch_terms().values())).backward()
        fit.step_rows(0.02)
    assert not held.values[7].any()
    assert held.steps[7] > 0
    assert held.values[8].any()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_relocated_rows_fit_better(missing: bool, whole: bool) -> None:
    fit = objective(missing=missing, whole=whole)
    held = fit.rows.parameters_by_row
    with torch.no_grad():
        held.values[[0, 1]] = held.values[[38, 39]]  # the two ends of the curve
    fit._whole = None
    before, start = fit.bound(), held.values.clone()
    for _ in range(1 if whole else N // B):
        fit.relocate_rows()
    moved = torch.nonzero((held.values != start).any(1))[:, 0].tolist()
    assert 0 in moved
    assert fit.bound() > before
    sources = [(row == start).all(1).any() for row in held.values]
    assert all(sources)  # every row is at the position of a row


def test_rows_of_an_encoder_are_not_relocated() -> None:
    fit = objective(local=False)
    before = fit.all_rows()
    fit.relocate_rows()
    torch.testing.assert_close(fit.all_rows(), before, rtol=0, atol=0)
    assert len(list(fit.state())) == len([b for m in fit.modules for b in m.buffers()]) + 2


@pytest.mark.parametrize("missing", [False, True])
def test_the_current_functions_are_the_optimum_for_the_running_means(missing: bool) -> None:
    fit = objective(missing=missing)
    path, X = fit.path, torch.randn(9, 2, dtype=torch.float64)
    current = path.decoder(path.current()).predict(X)
    best = path.decoder(path.optimum(fit.whole_table().sums)).predict(X)
    torch.testing.assert_close(current, best, rtol=1e-8, atol=1e-10)


def test_positions_have_the_precision_of_the_map() -> None:
    table = InMemoryRows(torch.zeros(3, 2))
    rows = LocalRows(torch.ones(3, 2, dtype=torch.float32), table, 0.02)
    mean, variance = rows.place(torch.arange(2), table.Y[:2], None)
    assert rows.parameters_by_row.values.dtype == torch.float32
    assert mean.dtype == variance.dtype == torch.float64
    torch.testing.assert_close(variance, torch.full((2, 2), 0.1).double(), rtol=1e-6, atol=0)
