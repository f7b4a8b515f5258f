"""Relocation of rows: the best of the other rows' positions, and a bound that does not fall."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore import QEPLVM, BayesianGPLVM
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.gp import row_relocation
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.objective import SparseGPLVMObjective
from lvmcore.gp.row_relocation import best_positions
from lvmcore.numerics.gaussians import kl_standard_normal
from lvmcore.training import schedule
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.training.test_checkpoint import same, stop_after
from tests.unit.lvmcore.training.test_quasi_newton import kept_objective

MODELS = [BayesianGPLVM, QEPLVM]


def bent_rows(N: int = 60, D: int = 5, *, missing: float = 0.0) -> np.ndarray:
    """Smooth functions of a plane."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    Y = np.sin(X @ rng.normal(size=(2, D)) + rng.normal(size=D)) + 0.05 * rng.normal(size=(N, D))
    Y[rng.random((N, D)) < missing] = np.nan
    return Y


def objective(
    monkeypatch: pytest.MonkeyPatch, kind: type[LatentVariableModel], *, missing: float = 0.0
) -> SparseGPLVMObjective:
    model = kind(n_components=2, n_inducing=12, max_iter=120, start="pca", random_state=0)
    return kept_objective(monkeypatch, model, bent_rows(missing=missing))


def table_of(fit: SparseGPLVMObjective) -> tuple[DataDecoder, Tensor, Tensor | None]:
    cells = fit.data.cells
    observed = None if cells is None else cells.mask.to(fit.data.Y)
    return fit.data.decoder(fit.rows), fit.data.Y, observed


def scatter(fit: SparseGPLVMObjective, moved: Tensor) -> None:
    """Give some rows the positions of one another."""
    with torch.no_grad():
        for parameter in fit.rows.parameters():
            parameter[moved] = parameter[moved.roll(1)].clone()


def value(fit: SparseGPLVMObjective) -> float:
    with torch.no_grad():
        return float(sum(fit.terms().values()))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("block", [1 << 22, 400])
def test_every_row_is_tried_at_every_position(
    missing: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row and one position at a time, by the expected log density of the decoder."""
    fit = objective(monkeypatch, BayesianGPLVM, missing=missing)
    scatter(fit, torch.arange(0, 60, 3))
    decoder, Y, observed = table_of(fit)
    mean, variance = fit.rows.mean.detach(), fit.rows.variance.detach()
    candidates = torch.arange(1, 60, 2)
    monkeypatch.setattr(row_relocation, "BLOCK_CELLS", block)
    found = best_positions(decoder, Y, observed, mean, variance, candidates)
    kl = kl_standard_normal(mean, variance)
    gaps = Y if observed is None else torch.where(observed > 0, Y, torch.nan)
    for n in range(60):
        rows = decoder.observed_rows(gaps[n : n + 1])
        alone = torch.zeros(60, dtype=torch.long)
        density = rows.expected_log_density(alone, mean, variance) - kl
        best = int(candidates[density[candidates].argmax()])
        assert int(found[n]) == (best if density[best] > density[n] else n)
    assert bool((found != torch.arange(60)).any())


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", MODELS)
def test_rows_in_the_wrong_place_go_back_near_their_own(
    kind: type[LatentVariableModel], missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = objective(monkeypatch, kind, missing=missing)
    own, sd = fit.rows.mean.detach().clone(), fit.rows.mean.detach().std(0)
    best, moved = value(fit), torch.arange(0, 60, 20)
    scatter(fit, moved)
    lost = value(fit)
    away = ((fit.rows.mean - own) / sd).norm(dim=1)[moved].mean()
    fit.relocate_rows()
    assert value(fit) > lost + 0.5 * (best - lost)
    assert ((fit.rows.mean - own) / sd).norm(dim=1)[moved].mean() < 0.5 * away


def test_moves_that_lower_the_bound_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = objective(monkeypatch, QEPLVM)
    before = [parameter.detach().clone() for parameter in fit.rows.parameters()]
    backwards = torch.arange(59, -1, -1)
    monkeypatch.setattr("lvmcore.gp.rows.latent_rows.best_positions", lambda *_: backwards)
    fit.relocate_rows()
    for parameter, old in zip(fit.rows.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_a_map_that_began_in_the_wrong_order_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that start at one another's positions: without relocations their fit ends lower."""
    Y = bent_rows(150)
    start = BayesianGPLVM(n_components=2, start="pca", max_iter=300, random_state=0).fit(Y)
    places = start.embedding_.mean.copy()
    places[::3] = np.roll(places[::3], 1, axis=0)
    settings = {"n_components": 2, "start": places, "max_iter": 300, "random_state": 0}
    mended = BayesianGPLVM(**settings).fit(Y)
    monkeypatch.setattr(SparseGPLVMObjective, "relocate_rows", lambda self: None)
    left = BayesianGPLVM(**settings).fit(Y)
    assert mended.elbo_ > left.elbo_ + 0.1 * Y.size


@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_stopped_between_relocations_ends_as_if_it_had_not_been(
    kind: type[LatentVariableModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "RELOCATION_INTERVAL", 7)
    Y = bent_rows(missing=0.1)
    settings = {"n_components": 2, "n_inducing": 8, "max_iter": 40, "random_state": 0}
    whole = kind(**settings).fit(Y)
    for stop in (7, 10, 24, 30):  # 24: the last step before the finish
        path = tmp_path / f"{stop}.safetensors"
        kind(**settings)._fit_from(Y, callback=stop_after(stop), checkpoint=Checkpoint(path))
        same(whole, kind(**settings)._fit_from(Y, checkpoint=Checkpoint(path)), Y)
