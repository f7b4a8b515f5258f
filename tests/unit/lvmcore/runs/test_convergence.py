"""The verdict on a fit, from what its run recorded."""

from dataclasses import dataclass

import pytest

from lvmcore.runs.convergence import Verdict, convergence_clause, convergence_verdict
from lvmcore.runs.job import now
from lvmcore.runs.job_state import JobState


@dataclass
class Ending:
    converged: bool | None = False
    elbo: float | None = -5.0
    rise: tuple[float, float] | None = None


@pytest.mark.parametrize(
    ("ending", "verdict", "clause"),
    [
        (Ending(converged=True, rise=(-1.0, 0.5)), "converged", "converged"),
        (Ending(converged=True, elbo=None), "converged", "converged"),
        (Ending(), "still improving", "still improving"),
        (Ending(rise=(1.0, 2.0)), "still improving", "still improving, by 1.0 to 2.0 nats a step"),
        (
            Ending(rise=(-1.0, 2.0)),
            "noisy",
            "too noisy to tell whether the bound still rises (-1.0 to 2.0 nats a step)",
        ),
        (Ending(elbo=None), "not converged", "not converged"),
    ],
)
def test_three_words(ending: Ending, verdict: Verdict, clause: str) -> None:
    assert convergence_verdict(ending) == verdict
    assert convergence_clause(ending, str) == clause


def test_a_state_of_an_earlier_version_has_no_rise() -> None:
    state = JobState("done", "finished", now(), elbo=-1.0, converged=False, rise=(1.0, 2.0))
    stored = state.to_json()
    assert JobState.from_json(stored) == state
    del stored["rise"]
    assert convergence_verdict(JobState.from_json(stored)) == "still improving"
