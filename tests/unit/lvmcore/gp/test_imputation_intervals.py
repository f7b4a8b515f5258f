"""Intervals of filled cells, set by cells that are known but held out."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.gp import imputation_intervals
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.imputation_intervals import (
    ConditionedRows,
    fill_rows,
    hold_out_cells,
    interval_scale,
)
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.metrics.scores import coverage
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.ldgd import LDGD
from lvmcore.preprocessing.observed_cells import ObservedCells

N, D, NOISE = 400, 8, 0.1


def table(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Latent places [N, 1], smooth columns of them with noise [N, D], and what is observed."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, 1))
    Y = np.sin(x @ rng.uniform(0.5, 1.5, (1, D)) + rng.uniform(0, 6, D))
    Y += math.sqrt(NOISE) * rng.standard_normal((N, D))
    observed = rng.random((N, D)) < 0.8
    return torch.as_tensor(x), torch.as_tensor(Y), torch.as_tensor(observed)


def decoder_for(x: Tensor, Y: Tensor, observed: Tensor, noise: Tensor) -> DataDecoder:
    """The path at the true places, sure of the noise that it is given."""
    path, rows = DataPath(x[:: len(x) // 20], noise), LatentRows(x, 1e-2)
    cells = ObservedCells.from_mask(observed, Y)
    return path.decoder(path.masked_optimum(rows, torch.where(observed, Y, 0.0), cells))


def scale_of(noise: Tensor, missing: float = 0.0) -> Tensor:
    """The factors of a path that is sure of ``noise``; ``missing`` stands in missing cells."""
    x, Y, observed = table()
    held = hold_out_cells(observed, torch.Generator().manual_seed(0))
    settled = ConditionedRows.of(decoder_for(x, Y, observed & ~held, noise), LatentRows(x, 1e-2))
    return interval_scale(settled, torch.where(observed, Y, missing), observed, held)


def test_intervals_that_are_wide_enough_are_left_alone() -> None:
    wide = scale_of(torch.full((D,), 4 * NOISE, dtype=torch.float64))
    torch.testing.assert_close(wide, torch.ones(D, dtype=torch.float64))


def test_noise_taken_for_a_ninth_of_itself_widens_intervals_about_threefold() -> None:
    right = scale_of(torch.full((D,), NOISE, dtype=torch.float64))
    assert right.min() >= 1
    assert right.mean() < 1.15
    narrow = scale_of(torch.full((D,), NOISE / 9, dtype=torch.float64))
    assert 2 < narrow.mean() < 4


def test_a_column_that_is_worse_than_the_others_is_widened_more() -> None:
    noise = torch.full((D,), NOISE, dtype=torch.float64)
    noise[2] /= 16
    scale = scale_of(noise)
    assert scale.argmax() == 2
    assert scale[2] > 1.3 * scale.median()


def test_what_stands_in_missing_cells_is_never_looked_at() -> None:
    noise = torch.full((D,), NOISE / 9, dtype=torch.float64)
    torch.testing.assert_close(scale_of(noise), scale_of(noise, missing=1e3), rtol=0, atol=0)


def test_held_out_cells_are_observed_ones_and_leave_every_row_some() -> None:
    observed = torch.rand(900, 6, generator=torch.Generator().manual_seed(0)) < 0.4
    observed[:300] = False
    observed[:300, 0] = True  # one cell each: none to spare
    held = hold_out_cells(observed, torch.Generator().manual_seed(1))
    assert not (held & ~observed).any()
    assert not held[:300].any()
    rows = held.any(1)
    assert 0 < rows.sum() <= imputation_intervals.HELD_ROWS
    assert (observed & ~held)[rows].any(1).all()


def test_rows_with_a_cell_each_have_none_to_hold_out() -> None:
    x, Y, _ = table()
    observed = torch.zeros(N, D, dtype=torch.bool)
    observed[torch.arange(N), torch.arange(N) % D] = True
    held = hold_out_cells(observed, torch.Generator().manual_seed(0))
    noise = torch.full((D,), NOISE, dtype=torch.float64)
    settled = ConditionedRows(decoder_for(x, Y, observed, noise), x, torch.ones_like(x))
    scale = interval_scale(settled, Y, observed, held)
    torch.testing.assert_close(scale, torch.ones(D, dtype=torch.float64))


def test_factors_are_quantiles_of_a_column_beside_fifty_cells_of_all() -> None:
    rng = np.random.default_rng(3)
    away, column = np.abs(rng.standard_normal(330)) * 2.0, rng.integers(0, 3, 330)
    away[column == 1] *= 2
    found = imputation_intervals._scales(torch.as_tensor(away), torch.as_tensor(column), 4)
    normal = norm.ppf(0.5 * (1 + (np.arange(20) + 0.5) / 20))
    everything = np.concatenate([away, normal])
    for d in range(4):  # column 3 has no cell of its own
        # All 350 count as 50, so a column's own cell counts seven times one of them.
        repeated = np.sort(np.concatenate([np.repeat(away[column == d], 7), everything]))
        expected = repeated[math.ceil(0.9 * len(repeated)) - 1] / norm.ppf(0.95)
        assert found[d].item() == pytest.approx(max(1.0, expected), rel=1e-9)


def test_filling_weighs_the_places_that_cells_leave_open() -> None:
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)[:, None]
    Y = torch.cat([x.square(), x], 1)
    decoder = decoder_for(
        x, Y, torch.ones(41, 2, dtype=torch.bool), torch.full((2,), 1e-3).double()
    )
    row = torch.tensor([[1.44, torch.nan]], dtype=torch.float64)
    with torch.no_grad():
        mean, variance, _ = fill_rows(decoder, row, x, torch.full_like(x, 1e-4))
    # y = x² leaves ±1.2 open: the mean is between them, and the spread is from it to either.
    assert mean[0, 1].item() == pytest.approx(0.0, abs=0.15)
    assert variance[0, 1].item() == pytest.approx(1.44, rel=0.1)


def spiky(seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A table with long tails, and which of its cells to hide."""
    rng = np.random.default_rng(seed)
    whole = np.exp(0.5 * rng.standard_normal((200, 3)) @ rng.standard_normal((3, 15)))
    return whole, rng.random(whole.shape) < 0.6


@pytest.mark.slow
def test_a_model_that_follows_too_closely_covers_hidden_cells_after_all() -> None:
    whole, hidden = spiky(1)
    seen = np.where(hidden, np.nan, whole)
    model = BayesianGPLVM(n_components=6, max_iter=200).fit(seen)
    filled = model.impute(seen)
    scale = model.interval_scale_[np.nonzero(hidden)[1]]
    variance = filled.variance[hidden]
    narrow, ours = (
        coverage(whole[hidden], filled.mean[hidden], found, 0.9)
        for found in (variance / scale**2, variance)
    )
    assert narrow < 0.83
    assert 0.86 < ours < 0.95


@pytest.mark.slow
def test_what_is_fitted_stays_as_it_was_before_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, hidden = spiky(2)
    seen = np.where(hidden, np.nan, whole)
    labels = (whole[:, 0] > 1).tolist()
    checked = [
        BayesianGPLVM(n_components=2, max_iter=60).fit(seen),
        LDGD(n_components=2, max_iter=60).fit(seen, labels),
    ]
    monkeypatch.setattr(BayesianGPLVM, "_calibrate", lambda *_: None)
    monkeypatch.setattr(LDGD, "_calibrate", lambda *_: None)
    bare = [
        BayesianGPLVM(n_components=2, max_iter=60).fit(seen),
        LDGD(n_components=2, max_iter=60).fit(seen, labels),
    ]
    for model, other in zip(checked, bare, strict=True):
        assert model.interval_scale_.max() > 1
        assert model.elbo_ == other.elbo_
        np.testing.assert_array_equal(model.embedding_.mean, other.embedding_.mean)
        for path, Z in model.inducing_inputs_.items():
            np.testing.assert_array_equal(Z, other.inducing_inputs_[path])
        np.testing.assert_array_equal(model.impute(seen).mean, other.impute(seen).mean)


def test_a_check_that_breaks_down_is_told_and_costs_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> Tensor:
        raise NumericalError("The matrix could not be factorised.")

    monkeypatch.setattr(imputation_intervals, "interval_scale", broken)
    whole, hidden = spiky(3)
    model = BayesianGPLVM(n_components=2, max_iter=20).fit(np.where(hidden, np.nan, whole))
    assert model.notes_[-1].startswith("The intervals of filled cells could not be checked.")
    np.testing.assert_array_equal(model.interval_scale_, np.ones(15))


def test_a_fit_without_gaps_has_no_intervals_to_widen() -> None:
    whole, hidden = spiky(4)
    model = BayesianGPLVM(n_components=2, max_iter=60).fit(np.where(hidden, np.nan, whole))
    assert model.interval_scale_.max() > 1
    model.fit(whole)
    np.testing.assert_array_equal(model.interval_scale_, np.ones(15))


def test_who_stops_a_fit_does_not_wait_for_the_check() -> None:
    whole, hidden = spiky(5)
    seen = np.where(hidden, np.nan, whole)
    model = BayesianGPLVM(n_components=2, max_iter=60).fit(
        seen, callback=lambda step: step.iteration == 3
    )
    assert len(model.history_) == 3
    assert model.notes_[-1].startswith("The fit was stopped before the intervals")
    np.testing.assert_array_equal(model.interval_scale_, np.ones(15))
    shortest = BayesianGPLVM(n_components=2, max_iter=1).fit(seen)
    assert (shortest.interval_scale_ >= 1).all()
