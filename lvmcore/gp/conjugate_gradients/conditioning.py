"""Conditioning of a Gaussian process on many rows: solves, marginal likelihood, posterior."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from lvmcore.gp.conjugate_gradients.covariance import BlockedCovariance
from lvmcore.gp.conjugate_gradients.local_variance import LocalVariance
from lvmcore.gp.conjugate_gradients.low_rank import LowRankCovariance, choose_pivots
from lvmcore.gp.conjugate_gradients.posterior import (
    BlockPosterior,
    Solution,
    calibrated_exponent,
)
from lvmcore.gp.conjugate_gradients.solver import ConjugateGradients
from lvmcore.gp.exact_regression import ExactGP, ExactRows
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.results import Callback, FitStep
from lvmcore.training.checkpoint import Checkpoint

__all__ = ["Conditioning", "SolveProgress", "unsolved_note"]

#: Relative residual at which y is solved, and most iterations.
TOLERANCE, MOST_ITERATIONS = 1e-6, 300
#: Pivots of the preconditioner, and how many of them are inducing inputs of the variance.
PRECONDITIONER_PIVOTS, VARIANCE_PIVOTS = 1000, 500
#: Random vectors of the log determinant, and rows by which the variance is calibrated.
PROBES, CALIBRATION_ROWS = 8, 24
#: Iterations that a fit is expected to take before one was done.
EXPECTED_ITERATIONS = 40


@dataclass(frozen=True)
class SolveProgress:
    """How a solve is reported, and stored.

    Attributes:
        last: the last step of the optimisation before it; None without any.
        callback: called with each iteration; True stops the solve.
        checkpoint: restored at the start and saved at intervals and at a stop; None for none.
    """

    last: FitStep | None = None
    callback: Callback | None = None
    checkpoint: Checkpoint | None = None


class Conditioning:
    """Solves with A = K + D of all rows by preconditioned conjugate gradients.

    The right-hand sides are y, draws z ~ N(0, P) by which log|A| = log|P| + tr log P^(−1/2) A
    P^(−1/2) is estimated (stochastic Lanczos quadrature; Gardner and others 2018), and unit vectors
    e_i, which give Var f(x_i) given the other rows, 1/(A⁻¹)_ii − D_ii.

    Args:
        gp: kernel and noise.
        rows: of the fit.
        seed: of the pivots, of z and of the rows i.

    Attributes:
        stopped: whether the callback ended the solve.
        seconds_left: estimated time of the iterations that a stop left out.

    Raises:
        NumericalError: the covariance matrix of the pivots could not be factorised.
    """

    @torch.no_grad()
    def __init__(self, gp: ExactGP, rows: ExactRows, seed: int) -> None:
        self.gp, self.rows, self.stopped, self.seconds_left = gp, rows, False, 0.0
        generator = torch.Generator().manual_seed(seed)
        X, N = rows.X, len(rows.X)
        self.covariance = BlockedCovariance(gp, X, rows.known)
        noise = self.covariance.noise
        self.pivots = choose_pivots(gp, X, min(PRECONDITIONER_PIVOTS, N), generator)
        self.low_rank = LowRankCovariance(gp, X, noise, self.pivots)
        self.places = torch.randperm(N, generator=generator)[:CALIBRATION_ROWS].to(X.device)
        units = torch.zeros(N, len(self.places)).to(X)
        units[self.places, torch.arange(len(self.places), device=X.device)] = 1.0
        B = torch.cat([rows.Y, self.low_rank.sample(PROBES, generator), units], 1)
        self.solver = ConjugateGradients(self.covariance.product, self.low_rank.solve, B)

    @property
    def error(self) -> float:
        """Relative residual of y."""
        return float(self.solver.error[0])

    @torch.no_grad()
    def solve(self, progress: SolveProgress) -> None:
        """Iterate until y is solved to ``TOLERANCE``, or the callback stops."""
        began, checkpoint = time.perf_counter(), progress.checkpoint
        found = None if checkpoint is None else checkpoint.restore()
        if found is not None and "solver.solution" in found[0]:
            self.solver.restore(found[0])
            began -= float(found[1]["seconds"])
        solver = self.solver
        while self.error > TOLERANCE and solver.iterations < MOST_ITERATIONS and not self.stopped:
            solver.iterate()
            seconds = time.perf_counter() - began
            if progress.callback is not None and progress.last is not None:
                self.stopped = bool(progress.callback(self._step(progress.last, seconds)))
            if checkpoint is not None and (self.stopped or checkpoint.due()):
                facts = {"iteration": solver.iterations, "seconds": seconds}
                checkpoint.save(solver.arrays(), facts)
        if self.stopped:
            self.seconds_left = seconds / solver.iterations * self._iterations_left()

    def _step(self, last: FitStep, seconds: float) -> FitStep:
        """The report of an iteration: the bound stays that of the optimisation."""
        left, done = self._iterations_left(), last.iteration + self.solver.iterations
        return FitStep(
            done,
            last.iteration + MOST_ITERATIONS,
            last.seconds + seconds,
            last.objective,
            last.terms,
            ends=left == 0,
            left=left,
        )

    def _iterations_left(self) -> float:
        """Further iterations, from the pace at which the residual has fallen."""
        done, most = self.solver.iterations, MOST_ITERATIONS - self.solver.iterations
        if self.error <= TOLERANCE or not most:
            return 0.0
        fallen = -math.log(min(self.error, 0.99))
        return min(float(most), done * math.log(self.error / TOLERANCE) / fallen)

    @torch.no_grad()
    def measure(self) -> None:
        """Estimate the time of a solve that is left out, from one product."""
        began = time.perf_counter()
        self.covariance.product(self.solver.direction)
        self.seconds_left = EXPECTED_ITERATIONS * (time.perf_counter() - began)

    @torch.no_grad()
    def terms(self) -> dict[str, float]:
        """−½ yᵀA⁻¹y − (N/2) log 2π and an estimate of −½ log|A|, nats."""
        N, Y = len(self.rows.Y), self.rows.Y
        fit = -0.5 * float((Y * self.solver.solution[:, :1]).sum()) - 0.5 * N * LOG_2PI
        log_det = float(self.low_rank.log_determinant)
        if self.solver.iterations:
            log_det += N * float(self.solver.log_quadratic_forms()[1 : 1 + PROBES].mean())
        return {"data fit": fit, "complexity": -0.5 * log_det}

    @torch.no_grad()
    def posterior(self) -> BlockPosterior:
        """The posterior after the solve, its variance calibrated."""
        rows, places, noise = self.rows, self.places, self.covariance.noise
        columns = 1 + PROBES + torch.arange(len(places), device=places.device)
        exact = 1 / self.solver.solution[places, columns] - noise[places]
        pivots = self.pivots[:VARIANCE_PIVOTS]
        variance = LocalVariance(self.gp, rows.X, noise, pivots)
        exponent = calibrated_exponent(variance, places, exact)
        alpha = self.solver.solution[:, :1].contiguous()
        solution = Solution(alpha, pivots, exponent)
        return BlockPosterior(self.gp, rows.X, rows.Y, solution, rows.known, variance)


def unsolved_note(error: float) -> str | None:
    """A note on a solve that did not converge; None for one that did."""
    if error <= TOLERANCE:
        return None
    return (
        f"The mean is solved to {error:.0e} of the target's size after {MOST_ITERATIONS} "
        "iterations: the noise is so small that the rows are nearly dependent."
    )
