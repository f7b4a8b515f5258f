"""A start from a subset of the rows: its terms, the placement of the others, and whole fits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore import BayesianGPLVM
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp import unlabelled_model
from lvmcore.gp.objective import GPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.subset_start import SubsetStartObjective
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.results import FitStep
from lvmcore.training import schedule
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import train
from lvmcore.training.schedule import Schedule
from tests.unit.lvmcore.gp.test_row_relocation import bent_rows
from tests.unit.lvmcore.training.test_checkpoint import same, stop_after

N, SUBSET, M = 150, 60, 12
SIZES = (SUBSET, 30)
SETTINGS: dict[str, Any] = {
    "n_components": 2,
    "n_inducing": M,
    "start": "pca",
    "random_state": 0,
}
rows_of_fits = bent_rows(N, missing=0.1)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of N rows start with a subset, and have short phases."""
    monkeypatch.setattr(unlabelled_model, "LONG_TABLE", N - 1)
    monkeypatch.setattr(unlabelled_model, "SUBSET_SIZES", SIZES)
    monkeypatch.setattr(schedule, "MOST_CONSTANT", 20)
    monkeypatch.setattr(schedule, "MOST_COOLING", 10)
    monkeypatch.setattr(schedule, "MOST_SUBSET", 10)


def problem(table: np.ndarray) -> FitProblem:
    observed = torch.as_tensor(~np.isnan(table))
    Y = torch.as_tensor(np.nan_to_num(table))
    cells = InMemoryRows(Y, None if bool(observed.all()) else observed)
    return FitProblem(cells, (), 2, torch.Generator().manual_seed(0), None)


def parts(table: np.ndarray) -> tuple[LatentRows, DataPath]:
    """Random q(X), and a path to the columns."""
    random = torch.Generator().manual_seed(1)
    X = torch.randn(len(table), 2, generator=random, dtype=torch.float64)
    rows = LatentRows(X, 0.1)
    with torch.no_grad():
        rows.log_variance += 0.3 * torch.randn(X.shape, generator=random, dtype=torch.float64)
    noise = torch.full((table.shape[1],), 0.3, dtype=torch.float64)
    return rows, DataPath(X[:M].clone(), noise, pooled=True)


def objective(*, missing: float = 0.1) -> SubsetStartObjective:
    table = bent_rows(N, missing=missing)
    return SubsetStartObjective(*parts(table), problem(table), [torch.arange(0, N, 2)[:SUBSET]])


def total(fit: GPLVMObjective) -> Tensor:
    return torch.stack([*fit.terms().values()]).sum()


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_bound_is_at_first_that_of_the_subset_times_its_share(missing: float) -> None:
    fit = objective(missing=missing)
    table = bent_rows(N, missing=missing)
    rows, path = parts(table)
    chosen = fit.subset
    for parameter in rows.parameters():
        parameter.data = parameter.data[chosen]
    alone = GPLVMObjective(rows, path, problem(table[chosen]))
    share = N / SUBSET
    assert total(fit).item() == pytest.approx(share * total(alone).item(), rel=1e-12)
    found = torch.autograd.grad(total(fit), fit.parameters())
    expected = torch.autograd.grad(total(alone), list(alone.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, share * other, rtol=1e-9, atol=1e-9)


def test_the_scales_of_the_subset_are_those_of_its_curvature() -> None:
    fit = objective()
    train(fit, Schedule(300, 0.05, fit.data.count), None)
    fit.placed.zero_()  # the end of the fit placed the others
    mean = fit.start.rows.mean
    scale = dict(zip(fit.parameters(), fit.parameter_scales(), strict=True))[mean]
    ratios = []
    for n in range(0, SUBSET, 7):
        step, slopes = 1e-3 * float(scale[n, 0]), []
        for sign in (1, -1):
            with torch.no_grad():
                mean[n, 0] += sign * step
            slopes.append(float(torch.autograd.grad(-total(fit), mean)[0][n, 0]))
            with torch.no_grad():
                mean[n, 0] -= sign * step
        ratios.append((slopes[0] - slopes[1]) / (2 * step) * float(scale[n, 0]) ** 2)
    assert np.median(ratios) == pytest.approx(1, abs=0.2)


def test_all_rows_are_placed_once_and_better_than_at_random_rows() -> None:
    fit = objective()
    train(fit, Schedule(200, 0.05, fit.data.count), None)
    fit.placed.zero_()
    assert fit.place_rows()
    assert not fit.place_rows()
    table = bent_rows(N, missing=0.1)
    whole = GPLVMObjective(fit.rows, fit.path, problem(table))
    assert total(fit).item() == pytest.approx(total(whole).item(), rel=1e-12)
    found = fit.bound()
    assert torch.equal(fit.rows.mean[fit.subset], fit.start.rows.mean)
    others = np.setdiff1d(np.arange(N), fit.subset)
    for seed in range(5):
        at = np.random.default_rng(seed).choice(fit.subset.numpy(), len(others))
        with torch.no_grad():
            for parameter in fit.rows.parameters():
                parameter[others] = parameter[at]
        assert fit.bound() < found - 0.1 * fit.data.count


def test_the_snapshot_has_the_placed_rows() -> None:
    fit = objective()
    before = fit.snapshot()
    assert before.rows.tolist() == fit.subset.tolist()
    first, second = before.dimensions
    own = fit.start.rows.mean.detach().numpy()
    np.testing.assert_array_equal(before.mean, own[:, [first, second]])
    fit.place_rows()
    assert len(fit.snapshot().rows) == N


# ---- whole fits ------------------------------------------------------------------------


def fitted(max_iter: int = 400, callback: Callable[[FitStep], None] | None = None) -> BayesianGPLVM:
    return BayesianGPLVM(**SETTINGS, max_iter=max_iter).fit(rows_of_fits, callback=callback)


def test_it_ends_as_well_as_a_fit_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted(900)
    monkeypatch.setattr(unlabelled_model, "LONG_TABLE", N - 1)
    monkeypatch.setattr(unlabelled_model, "SUBSET_SIZES", SIZES)
    steps: list[FitStep] = []
    part = fitted(900, steps.append)
    assert whole.converged_
    assert part.converged_
    assert not np.array_equal(whole.embedding_.mean, part.embedding_.mean)
    assert part.elbo_ > whole.elbo_ - 0.03 * np.isfinite(rows_of_fits).sum()
    shown = [len(step.snapshot.rows) for step in steps if step.snapshot is not None]
    assert set(shown) <= {30, SUBSET, N}
    assert (shown[0], shown[-1]) == (30, N)
    assert shown == sorted(shown)
    # At most so long: 30 rows, then all
    first, last = steps[0], steps[-1]
    assert first.left == 450 + 100 - 1 + 350 * N / 30
    assert last.left is None
    assert last.steps_left == 900 - last.iteration
    assert part.elbo_ == pytest.approx(steps[-1].objective, rel=1e-9)


def test_complete_or_fewer_rows_are_fitted_at_once(
    monkeypatch: pytest.MonkeyPatch, small_tables: None
) -> None:
    made: list[int] = []
    usual = SubsetStartObjective.__init__

    def counted(self: SubsetStartObjective, *given: Any) -> None:
        usual(self, *given)
        made.append(len(self.subset))

    monkeypatch.setattr(SubsetStartObjective, "__init__", counted)
    model = BayesianGPLVM(**SETTINGS, max_iter=3)
    model.fit(rows_of_fits[1:])
    model.fit(bent_rows(N))
    assert made == []
    model.fit(rows_of_fits)
    assert made == [SIZES[1], SUBSET]


@pytest.mark.usefixtures("small_tables")
def test_a_stopped_fit_goes_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the steps of the smallest subset, and in the finish of each and of all rows."""
    monkeypatch.setattr(schedule, "OPTIMUM_GAIN", -np.inf)
    model = BayesianGPLVM(**SETTINGS, max_iter=60)
    whole = model.fit(rows_of_fits)
    path = tmp_path / "checkpoint.safetensors"
    for stop in (12, 30, 35, 40, 41, 45, 50, 51, 55):
        part = BayesianGPLVM(**SETTINGS, max_iter=60)
        part._fit_from(rows_of_fits, callback=stop_after(stop), checkpoint=Checkpoint(path))
        assert part.history_[-1].iteration == stop
        assert len(part.embedding_.mean) == N
    end = BayesianGPLVM(**SETTINGS, max_iter=60)
    same(whole, end._fit_from(rows_of_fits, checkpoint=Checkpoint(path)), rows_of_fits)


@pytest.mark.usefixtures("small_tables")
def test_more_steps_go_on_from_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "OPTIMUM_GAIN", -np.inf)
    for steps in (60, 80):
        own = Checkpoint(tmp_path / f"{steps}.safetensors", branches=tmp_path)
        model = BayesianGPLVM(**SETTINGS, max_iter=steps)
        longer = model._fit_from(rows_of_fits, checkpoint=own)
        assert (own.saved > 0) == (steps > 60)
    same(BayesianGPLVM(**SETTINGS, max_iter=80).fit(rows_of_fits), longer, rows_of_fits)


def test_a_short_fit_places_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlabelled_model, "LONG_TABLE", N - 1)
    monkeypatch.setattr(unlabelled_model, "SUBSET_SIZES", SIZES)
    for steps in (1, 2, 3):
        model = fitted(max_iter=steps)
        assert model.embedding_.mean.shape == (N, 2)
        assert np.isfinite(model.elbo_)


def test_a_fit_stopped_by_an_earlier_version_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state has the parameters of all rows, and none of a subset."""
    path = tmp_path / "checkpoint.safetensors"
    early = BayesianGPLVM(**SETTINGS, max_iter=20)
    early._fit_from(rows_of_fits, callback=stop_after(5), checkpoint=Checkpoint(path))
    monkeypatch.setattr(unlabelled_model, "LONG_TABLE", N - 1)
    monkeypatch.setattr(unlabelled_model, "SUBSET_SIZES", SIZES)
    checkpoint = Checkpoint(path)
    fit = BayesianGPLVM(**SETTINGS, max_iter=20)._fit_from(rows_of_fits, checkpoint=checkpoint)
    (note,) = checkpoint.notes
    assert "another version" in note
    same(BayesianGPLVM(**SETTINGS, max_iter=20).fit(rows_of_fits), fit, rows_of_fits)
