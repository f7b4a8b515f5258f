"""The verdict on how a fit ended: converged, still improving or noisy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

__all__ = ["FitEnding", "Verdict", "convergence_clause", "convergence_verdict"]

#: A fit without a bound (neighbour embeddings, sampling, alternating updates) ends "converged" or
#: "not converged".
Verdict = Literal["converged", "still improving", "noisy", "not converged"]


class FitEnding(Protocol):
    """How a fit ended; see ``Job``."""

    @property
    def elbo(self) -> float | None:
        """Final bound, nats."""

    @property
    def converged(self) -> bool | None:
        """Whether the fit converged."""

    @property
    def rise(self) -> tuple[float, float] | None:
        """Least and largest rise of a mini-batch bound a step, nats."""


def convergence_verdict(fit: FitEnding) -> Verdict:
    """The verdict on a fit that has ended.

    A fit to mini-batches that has not converged is "still improving" if the whole confidence
    interval of its bound's rise is above 0, and "noisy" if it reaches below: then the batches
    differ so much that the bound does not show whether it rises.
    """
    if fit.converged:
        return "converged"
    if fit.elbo is None:
        return "not converged"
    return "noisy" if fit.rise is not None and fit.rise[0] <= 0 else "still improving"


def convergence_clause(fit: FitEnding, number: Callable[[float], str]) -> str:
    """The verdict as a clause, with the rise of the bound where it is known.

    Args:
        fit: how the fit ended.
        number: writes a number.
    """
    verdict = convergence_verdict(fit)
    if fit.rise is None or verdict == "converged":
        return verdict
    least, most = (number(value) for value in fit.rise)
    if verdict == "noisy":
        return f"too noisy to tell whether the bound still rises ({least} to {most} nats a step)"
    return f"still improving, by {least} to {most} nats a step"
