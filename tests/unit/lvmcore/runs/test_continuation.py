"""What more steps would bring, from curves whose course is known."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError
from lvmcore.models.latent import pca
from lvmcore.results import FitStep
from lvmcore.runs import Store
from lvmcore.runs.continuation import (
    extrapolate_finish,
    extrapolate_rate,
    propose_continuation,
)
from lvmcore.training import schedule
from tests.unit.lvmcore.runs.fitting import ran

HAD, CRUISED = 400, 240


def curve(bound: NDArray[np.float64], starts: int = 1) -> list[FitStep]:
    total = HAD * starts
    return [FitStep(i + 1, total, 0.01 * i, float(b), starts=starts) for i, b in enumerate(bound)]


def test_steps_are_proposed_until_the_bound_is_flat() -> None:
    t = np.arange(HAD, dtype=np.float64)
    steps = curve(-3000 * (t + 1) ** -0.7)
    rate = 0.7 * 3000 * 330.0**-1.7  # of that curve at step 330: 330 / 0.6 is 550 steps
    found = extrapolate_rate(steps, flat=rate, branch=CRUISED)
    assert found is not None
    assert 150 <= found.steps <= 200
    assert found.total == HAD + found.steps
    soon = extrapolate_rate(steps, flat=10 * rate, branch=CRUISED)
    never = extrapolate_rate(steps, flat=0.01 * rate, branch=CRUISED)
    assert soon is not None
    assert never is not None
    assert (soon.steps, never.steps) == (100, 400)
    unknown = extrapolate_rate(steps, branch=CRUISED)
    assert unknown is not None
    assert unknown.steps == 200


def test_the_time_is_that_of_the_steps_to_be_done() -> None:
    t = np.arange(HAD, dtype=np.float64)
    one = extrapolate_rate(curve(np.log(t + 1)), branch=CRUISED)
    three = extrapolate_rate(curve(np.log(t + 1), starts=3), branch=CRUISED)
    anew = extrapolate_rate(curve(np.log(t + 1)))
    assert one is not None
    assert three is not None
    assert anew is not None
    assert one.seconds == pytest.approx(0.01 * (one.total - CRUISED))
    assert three.seconds == pytest.approx(3 * one.seconds)
    assert anew.seconds == pytest.approx(0.01 * anew.total)
    assert (one.anew, anew.anew) == (False, True)


def test_steps_that_were_all_told_at_the_end_took_their_share_of_it() -> None:
    steps = [FitStep(i + 1, HAD, 8.0, float(i)) for i in range(HAD)]
    found = extrapolate_rate(steps)
    assert found is not None
    assert found.seconds == pytest.approx(8.0 / HAD * found.total)


def test_a_rate_promises_no_gain() -> None:
    t = np.arange(HAD, dtype=np.float64)
    for bound in (np.log(t + 1), -t, t[:8]):
        found = extrapolate_rate(curve(bound), branch=CRUISED)
        assert found is not None
        assert found.gain is None
    assert extrapolate_rate(curve(np.full(HAD, math.nan))) is None
    assert extrapolate_rate([]) is None


def test_a_run_is_judged_by_the_start_that_was_kept(store: Store, toy: Dataset) -> None:
    settings = {"n_components": 2, "n_inducing": 8, "max_iter": 60, "n_restarts": 2}
    run = ran(store, toy, "bayesian_gplvm", **settings)
    found = propose_continuation(store, store.get(run))
    assert found is not None
    assert found.total == 60 + found.steps
    assert not found.anew
    assert propose_continuation(store, store.get(ran(store, toy, "ppca"))) is None


def test_a_finish_promises_a_share_of_its_last_gains() -> None:
    """The last 50 steps rise by 0.02 nats each; some steps of a quick fit are not recorded."""
    bound = np.concatenate([np.linspace(-500, -10, HAD - 50), np.linspace(-9.98, -9, 50)])
    steps = [step for step in curve(bound) if step.iteration % 3 or step.iteration == HAD]
    found = extrapolate_finish(steps, branch=HAD)
    assert found is not None
    assert (found.steps, found.total, found.anew) == (200, 600, False)
    assert found.gain == pytest.approx((0.005 * 200 * 0.02, 2 * 200 * 0.02), rel=0.01)
    assert found.seconds == pytest.approx(0.01 * 200)
    falls = extrapolate_finish(curve(-np.arange(HAD, dtype=np.float64)), branch=HAD)
    assert falls is not None
    assert falls.gain == (0, 0)


def test_a_finish_that_would_take_another_course_promises_nothing() -> None:
    steps = curve(np.linspace(-500, -10, HAD))
    for branch, anew in ((160, False), (None, True)):
        found = extrapolate_finish(steps, branch=branch)
        assert found is not None
        assert (found.gain, found.anew) == (None, anew)
    held = extrapolate_finish(steps, branch=HAD, most=450)
    assert held is not None
    assert held.steps == 50
    assert extrapolate_finish(steps, branch=HAD, most=HAD) is None
    assert extrapolate_finish([]) is None


@pytest.mark.parametrize("model", ["bayesian_gplvm", "qep_lvm"])
def test_a_run_that_ended_in_its_finish_goes_on_from_there(
    store: Store, toy: Dataset, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr(schedule, "OPTIMUM_GAIN", -math.inf)
    run = ran(store, toy, model, n_components=2, n_inducing=8, max_iter=760)
    job = store.get(run)
    assert (job.still_rising, job.branch_step) == (True, 760)
    found = propose_continuation(store, job)
    assert found is not None
    assert found.gain is not None


def test_no_more_steps_are_proposed_than_a_fit_can_have() -> None:
    t = np.arange(HAD, dtype=np.float64)
    steps = curve(-3000 * (t + 1) ** -0.7)
    free, held = (
        extrapolate_rate(steps, branch=CRUISED),
        extrapolate_rate(steps, branch=CRUISED, most=450),
    )
    assert free is not None
    assert held is not None
    assert free.steps > 50
    assert (held.steps, held.total) == (50, 450)
    assert extrapolate_rate(steps, branch=CRUISED, most=HAD) is None


def test_a_model_without_a_number_of_steps_is_offered_none(
    store: Store, toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pca, "MOST_STEPS", 2)
    X = toy.X.copy()
    X[::3, 0] = np.nan
    run = ran(store, Dataset.from_arrays(X, name="gaps"), "ppca", n_components=1)
    assert store.get(run).still_rising
    assert propose_continuation(store, store.get(run)) is None
    with pytest.raises(ConfigError, match="no setting for their number"):
        store.continue_fit(run, 100)


@pytest.mark.parametrize("power", [1.2, 2.0, 2.8])
def test_the_gain_of_more_batches_is_in_the_range_of_their_averaged_rise(power: float) -> None:
    """A rise that decays as a power of the steps at full rate, known exactly."""
    t = np.arange(1, 2 * HAD + 1, dtype=np.float64)
    bound = -3000 * t ** (1 - power) / (power - 1)
    at = 0.75 * CRUISED
    rise = 3000 * at**-power
    found = extrapolate_rate(curve(bound[:HAD]), rise=(rise, rise), branch=CRUISED)
    assert found is not None
    assert found.gain is not None
    gain = bound[round(CRUISED * found.total / HAD) - 1] - bound[CRUISED - 1]
    assert found.gain[0] < gain < found.gain[1]
    unclear = extrapolate_rate(curve(bound[:HAD]), rise=(-rise, rise), branch=CRUISED)
    assert unclear is not None
    assert unclear.gain == (0.0, found.gain[1])
