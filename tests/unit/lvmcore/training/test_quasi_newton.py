"""The quasi-Newton finish: it ends at an optimum, goes on where it stopped, and survives faults."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from lvmcore import QEPLVM, BayesianGPLVM
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.errors import NumericalError
from lvmcore.gp import unlabelled_model
from lvmcore.gp.objective import SparseGPLVMObjective
from lvmcore.results import FitStep
from lvmcore.training import quasi_newton, schedule
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.quasi_newton import QuasiNewtonFinish
from lvmcore.training.schedule import Schedule
from tests.unit.lvmcore.training.test_checkpoint import X, same, stop_after
from tests.unit.lvmcore.training.test_loop import Hill

SETTINGS = {"n_components": 2, "n_inducing": 8, "random_state": 3}


def finishing(max_iter: int, **settings: float) -> Schedule:
    return replace(Schedule(max_iter, 0.1, cells=1, finishes=True), **settings)


@pytest.fixture
def open_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short phases before the finish, and no early end: fits of 60 steps go on from their end."""
    monkeypatch.setattr(schedule, "MOST_CONSTANT", 20)
    monkeypatch.setattr(schedule, "MOST_COOLING", 10)
    monkeypatch.setattr(schedule, "OPTIMUM_GAIN", -np.inf)


# ---- the schedule ----------------------------------------------------------------------


def test_the_phases_of_long_fits_do_not_depend_on_their_length() -> None:
    for steps in (750, 900, 5000):
        course = finishing(steps)
        assert (course.steps_before_cooling, course.cooling_steps) == (300, 150)
        assert course.is_open
    short = finishing(100)
    assert (short.steps_before_cooling, short.cooling_steps) == (40, 20)
    assert not short.is_open
    assert not Schedule(900, 0.1, cells=1).is_open


def test_steps_of_a_subset_are_followed_by_longer_ones_of_all_rows() -> None:
    course = finishing(900)
    assert course.steps_left(100, 1.0) is None
    assert course.subset_steps(450) == 100
    # 440 further steps of a tenth of the rows, then 350 of all
    assert course.steps_left(110, 0.1) == 440 + 3500
    assert course.steps_left(600, 0.4) == 300 / 0.4
    short = finishing(50)  # 30 steps of Adam, and half of the others
    assert short.steps_left(1, 0.5) == 39 + 2 * 10


def test_an_optimum_is_where_fifty_steps_gain_next_to_nothing() -> None:
    course = Schedule(1000, 0.1, cells=100, finishes=True)
    rising = [0.001 * i for i in range(51)]  # 0.05 nats of 100 cells
    assert not course.is_at_optimum(rising)
    assert course.is_at_optimum([0.05 * value for value in rising])
    assert not course.is_at_optimum([0.0] * 50)


# ---- the loop --------------------------------------------------------------------------


def test_the_top_is_found_to_the_last_digits() -> None:
    hill = Hill()
    outcome = train(hill, finishing(300), None)
    assert outcome.converged
    assert len(outcome.history) < 300
    assert outcome.objective == pytest.approx(10.0, abs=1e-12)
    torch.testing.assert_close(hill.x.detach(), hill.target, rtol=0, atol=1e-6)


def test_the_last_step_alone_is_the_end() -> None:
    steps: list[FitStep] = []
    train(Hill(), finishing(300), steps.append)
    assert [step.ends for step in steps] == [False] * (len(steps) - 1) + [True]
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))


@pytest.mark.usefixtures("open_phases")
def test_a_callback_stops_it() -> None:
    outcome = train(Hill(), finishing(60), stop_after(31))
    assert outcome.stopped
    assert not outcome.converged
    assert len(outcome.history) == 31


@pytest.mark.usefixtures("open_phases")
def test_a_last_step_before_it_that_broke_down_is_undone() -> None:
    """The copies of the parameters are taken at intervals; from one of them the finish begins."""
    hill = Hill(broken=lambda call: call == 31)
    outcome = train(hill, finishing(60), None)
    assert outcome.objective == pytest.approx(10.0, abs=1e-9)


def test_a_bound_that_cannot_be_computed_at_all_is_named() -> None:
    with pytest.raises(NumericalError, match="could not be computed at the last step"):
        QuasiNewtonFinish(Hill(broken=lambda call: True), 1)


# ---- maps ------------------------------------------------------------------------------


def kept_objective(
    monkeypatch: pytest.MonkeyPatch, model: LatentVariableModel, data: np.ndarray
) -> SparseGPLVMObjective:
    """The objective of a fit at its end."""
    seen: list[SparseGPLVMObjective] = []
    usual = unlabelled_model.train

    def recorded(fit: SparseGPLVMObjective, *rest: object, **settings: object) -> FitOutcome:
        seen.append(fit)
        return usual(fit, *rest, **settings)

    monkeypatch.setattr(unlabelled_model, "train", recorded)
    model.fit(data)
    return seen[-1]  # those before compare starts


@pytest.mark.parametrize("kind", [BayesianGPLVM, QEPLVM])
def test_a_converged_map_cannot_be_improved_by_another_method(
    kind: type[LatentVariableModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 steps of scipy's L-BFGS-B gain less than 0.001 nats a cell."""
    data = load_iris().data
    model = kind(**{**SETTINGS, "max_iter": 900})
    finish = QuasiNewtonFinish(kept_objective(monkeypatch, model, data), data.size)
    assert model.converged_
    assert -finish.at.value == pytest.approx(model.elbo_, abs=1e-6)

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        at = finish.evaluate(torch.as_tensor(x))
        return (
            (np.inf, np.zeros_like(x)) if at.gradient is None else (at.value, at.gradient.numpy())
        )

    better = minimize(
        value, finish.at.x.numpy(), jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    assert -better.fun - model.elbo_ < 0.001 * data.size


def test_a_longer_fit_never_ends_lower() -> None:
    bounds = [BayesianGPLVM(**SETTINGS, max_iter=steps).fit(X).elbo_ for steps in (750, 900, 2000)]
    assert bounds[0] <= bounds[1] <= bounds[2]


@pytest.mark.usefixtures("open_phases")
@pytest.mark.parametrize("kind", [BayesianGPLVM, QEPLVM])
def test_a_fit_stopped_in_it_ends_as_if_it_had_not_been(
    kind: type[LatentVariableModel], tmp_path: Path
) -> None:
    whole = kind(**SETTINGS, max_iter=60).fit(X)
    path = tmp_path / "checkpoint.safetensors"
    for stop in (31, 32, 47):  # its first steps, and where it has several pairs
        part = kind(**SETTINGS, max_iter=60)
        part._fit_from(X, callback=stop_after(stop), checkpoint=Checkpoint(path))
        assert part.history_[-1].iteration == stop
    same(whole, kind(**SETTINGS, max_iter=60)._fit_from(X, checkpoint=Checkpoint(path)))


@pytest.mark.usefixtures("open_phases")
def test_more_steps_go_on_from_the_end(tmp_path: Path) -> None:
    """The steps of the shorter fit are not taken again, and the longer one ends as if at once."""
    for steps in (60, 80, 81):
        own = Checkpoint(tmp_path / f"{steps}.safetensors", branches=tmp_path)
        fit = BayesianGPLVM(**SETTINGS, max_iter=steps)._fit_from(X, checkpoint=own)
        assert (own.saved > 0) == (steps > 60)
    same(BayesianGPLVM(**SETTINGS, max_iter=81).fit(X), fit)


def test_single_precision_finishes_too() -> None:
    single = BayesianGPLVM(**SETTINGS, max_iter=900, dtype="float32").fit(X)
    double = BayesianGPLVM(**SETTINGS, max_iter=900).fit(X)
    assert single.converged_
    assert single.elbo_ == pytest.approx(double.elbo_, abs=0.001 * X.size)


def test_the_slack_is_far_below_what_counts_as_a_gain() -> None:
    assert schedule.OPTIMUM_GAIN >= 5 * quasi_newton.SLACK


# ---- scales ----------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", [BayesianGPLVM, QEPLVM])
def test_the_scales_of_the_map_are_the_inverse_roots_of_the_curvature(
    kind: type[LatentVariableModel], missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a fit, by differences of gradients."""
    table = X.copy()
    table[np.random.default_rng(0).random(table.shape) < missing] = np.nan
    fit = kept_objective(monkeypatch, kind(**SETTINGS, max_iter=900), table)
    scales = dict(zip(fit.parameters(), fit.parameter_scales(), strict=True))

    def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
        return torch.autograd.grad(-torch.stack([*fit.terms().values()]).sum(), parameter)[0]

    for parameter in (fit.rows.mean, fit.rows.log_variance):
        ratios = []
        for n in range(0, len(table), 15):
            step = 1e-3 * float(scales[parameter][n, 0])
            slopes = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter[n, 0] += sign * step
                slopes.append(float(gradient(parameter)[n, 0]))
                with torch.no_grad():
                    parameter[n, 0] -= sign * step
            curvature = (slopes[0] - slopes[1]) / (2 * step)
            ratios.append(curvature * float(scales[parameter][n, 0]) ** 2)
        assert np.median(ratios) == pytest.approx(1, abs=0.15)
        assert 0.5 < min(ratios) < max(ratios) < 2


def test_without_scales_of_its_own_an_objective_has_ones() -> None:
    hill = Hill()
    assert [bool((scale == 1).all()) for scale in hill.parameter_scales()] == [True] * len(
        list(hill.parameters())
    )
