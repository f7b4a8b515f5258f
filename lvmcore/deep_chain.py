"""The chain of a sampled deep Gaussian process: warm-up with its parameters, then draws to keep.

Moving-window Monte Carlo EM (Havasi, Hernández-Lobato and Murillo-Fuentes 2018): while the chain
warms up, each of its steps is followed by one of Adam, on the log joint of the data and one of the
latest draws, chosen at random. Then parameters, masses and step stay as they are, so that what is
kept comes of one Markov chain with one stationary distribution.

Notation: lvmcore/README.md and lvmcore/deep_sampled.py.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore import persistence
from lvmcore.checkpoint import Checkpoint, restore_tensors, tensor_arrays
from lvmcore.checks import to_numpy
from lvmcore.deep_fit import DeepFit
from lvmcore.deep_sampled import SampledDeepGP
from lvmcore.errors import NumericalError
from lvmcore.results import Callback, FitStep
from lvmcore.sampling_diagnostics import Diagnosis, diagnose
from lvmcore.sampling_gradients import GradientChain
from lvmcore.sampling_run import AGREED
from lvmcore.training import Outcome

__all__ = ["DeepChain"]

#: Share of the steps that warm up, and of those the share in which the parameters come to rest.
WARM_UP, SETTLING = 0.6, 0.4
#: Latest draws that the parameters are learned from.
WINDOW = 100
FRICTION = 0.1
# Steps of the warm-up from one estimate of the curvature to the next, and from one pair of
# gradients to the next; what a new estimate of the curvature counts at least.
CURVATURE_GAP, PAIR_GAP, LEAST_SHARE = 10, 5, 0.1
# Adam's first steps, in which its rate grows.
FIRST_STEPS = 10
#: Rows whose predictions are watched.
WATCHED = 4
SECONDS_BETWEEN_SNAPSHOTS = 0.25


class DeepChain:
    """A chain and the parameters that it is under.

    Args:
        model: what is fitted, in place; the first of its kept draws is where the chain begins.
        X: inputs, standardised, [N, H].
        Y: standardised targets, [N, P].
        max_iter: steps, the warm-up included.
        n_kept: draws to keep, at most.
        step_size: ε of `sampling_gradients`.
        learning_rate: Adam's.
        batch_size: B.
        generator: of batches and draws.

    Attributes:
        history: every step, with an estimate of the log likelihood of its draw.
        diagnoses: R̂ of the first and second half of the draws after the warm-up, and their
            effective sample size, by quantity.
        cut_short: it stopped before a draw was kept: there is only where the chain stood.
    """

    def __init__(
        self,
        model: SampledDeepGP,
        X: Tensor,
        Y: Tensor,
        *,
        max_iter: int,
        n_kept: int,
        step_size: float,
        learning_rate: float,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        self.model, self.X, self.Y, self.generator = model, X, Y, generator
        self.max_iter, self.learning_rate = max_iter, learning_rate
        self.warm_up = min(round(WARM_UP * max_iter), max_iter - 1)
        self._settling = round(SETTLING * self.warm_up)
        self._thin = -(-(max_iter - self.warm_up) // n_kept)
        self._shown = DeepFit(model, X, Y, n_samples=1, batch_size=batch_size, generator=generator)
        self._batch_size = batch_size
        # All rows and nothing hidden: gradients are exact.
        self._noisy = batch_size < len(X) or len(model.hidden) > 0
        self.chain = GradientChain(model.kept[0], generator, step_size=step_size, friction=FRICTION)
        self._window = model.kept[0].expand(WINDOW, -1, -1).clone()
        self._curvature = torch.zeros_like(self.chain.factor)
        self.adam = torch.optim.Adam(model.hyperparameters(), lr=1.0, betas=(0.9, 0.99))
        self._kept: list[Tensor] = []
        self._traces: list[NDArray[np.float64]] = []
        self.history: list[FitStep] = []
        self.diagnoses: dict[str, Diagnosis] = {}
        self.cut_short = False
        self._began = time.perf_counter()
        self._last_snapshot = -math.inf

    def run(self, callback: Callback | None, checkpoint: Checkpoint | None) -> Outcome:
        """Step until the end, or until the callback says so; leaves the kept draws in the model.

        Args:
            callback: called with each step; True stops the run.
            checkpoint: where to go on from, and where to leave the state now and then and at a
                stop; a run that goes on ends exactly as if it had never stopped.

        Returns:
            NaN for the bound, as there is none; converged where every R̂ is at most ``AGREED``.

        Raises:
            NumericalError: the chain left every reasonable place.
        """
        done = self._restore(checkpoint)
        stopped = False
        while not stopped and done < self.max_iter:
            reached = self._warm(done) if done < self.warm_up else self._draw(done)
            done += 1
            stopped = self._report(done, reached, callback)
            if checkpoint is not None and (stopped or checkpoint.due()):
                checkpoint.save(*self._state(done))
        self.cut_short = not self._kept
        self.model.kept = torch.stack(self._kept or [self.chain.position.clone()])
        self._diagnose()
        told = [one.r_hat for one in self.diagnoses.values() if not math.isnan(one.r_hat)]
        agreed = bool(told) and max(told) <= AGREED
        return Outcome(math.nan, tuple(self.history), agreed and not stopped, stopped)

    # ---- steps ---------------------------------------------------------------------------------

    def _warm(self, done: int) -> float:
        """A step of the chain, of its masses and of the parameters; the log likelihood before."""
        chain = self.chain
        if done == self.warm_up - self._settling:
            chain.forget()
        gradient, reached = self._gradient()
        if self._noisy and done % PAIR_GAP == 0:
            chain.compare(gradient, self._gradient()[0])
        if done % CURVATURE_GAP == 0:
            share = max(LEAST_SHARE, 1 / (1 + done // CURVATURE_GAP))
            found = self.model.curvature(chain.position, *self._rows(), self.generator)
            self._curvature.lerp_(found, share)
            chain.shape(self._curvature)
        chain.adapt(gradient)
        chain.step(gradient)
        self._window[done % WINDOW] = chain.position
        self._learn(done)
        return reached

    def _draw(self, done: int) -> float:
        """A step of the chain alone, after which its draw may be kept."""
        gradient, reached = self._gradient()
        self.chain.step(gradient)
        self._traces.append(self._quantities())
        if (self.max_iter - 1 - done) % self._thin == 0:
            self._kept.append(self.chain.position.clone())
        return reached

    def _rows(self) -> tuple[Tensor, Tensor, float]:
        """Some rows: inputs, targets, and how many rows each stands for.

        Those of a step are drawn whatever the steps before have seen. In passes over the table the
        errors of batches cancel out, and the chain, which takes them for independent, would make up
        for noise that is not there.
        """
        N = len(self.X)
        if self._batch_size >= N:
            return self.X, self.Y, 1.0
        batch = torch.randperm(N, generator=self.generator)[: self._batch_size]
        return self.X[batch], self.Y[batch], N / len(batch)

    def _gradient(self) -> tuple[Tensor, float]:
        """∇_u of −log π at the chain's position, and the log likelihood there, both estimated."""
        u = self.chain.position.detach().clone().requires_grad_()
        reached = self.model.log_likelihood(u, *self._rows(), self.generator)
        (slope,) = torch.autograd.grad(reached, u)
        gradient = u.detach() - slope
        if not bool(torch.isfinite(gradient).all()):
            raise NumericalError(
                "The chain left every reasonable place. Try a smaller step size, a lower learning "
                "rate or another seed, and look for columns with extreme values."
            )
        return gradient, float(reached.detach())

    def _learn(self, done: int) -> None:
        """A step of the parameters up the log joint, at one of the latest draws."""
        left = min(1.0, (self.warm_up - done) / max(1, self._settling))
        rate = self.learning_rate * min(1.0, (done + 1) / FIRST_STEPS) * left
        which = int(torch.randint(min(done + 1, WINDOW), (1,), generator=self.generator))
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        value = self.model.log_likelihood(self._window[which], *self._rows(), self.generator)
        (-value).backward()  # type: ignore[no-untyped-call]
        self.adam.step()

    def _report(self, done: int, reached: float, callback: Callback | None) -> bool:
        seconds = time.perf_counter() - self._began
        terms = {"log likelihood": reached}
        step = FitStep(done, self.max_iter, seconds, math.nan, terms)
        self.history.append(step)
        if callback is None:
            return False
        ends = done == self.max_iter
        if ends or seconds - self._last_snapshot >= SECONDS_BETWEEN_SNAPSHOTS:
            self._last_snapshot = seconds
            self.model.kept = self.chain.position[None].clone()
            shown = self._shown.snapshot()
            step = FitStep(done, self.max_iter, seconds, math.nan, terms, shown, ends=ends)
        return bool(callback(step))

    # ---- diagnostics ---------------------------------------------------------------------------

    def _watched(self) -> NDArray[np.intp]:
        """Positions of rows spread over the table."""
        return np.unique(np.linspace(0, len(self.X) - 1, WATCHED).astype(np.intp))

    @torch.no_grad()
    def _quantities(self) -> NDArray[np.float64]:
        """Σ u², and what the draw makes of some rows, hidden layers without noise."""
        model, u = self.model, self.chain.position
        rows, draw = self.X[torch.as_tensor(self._watched())], model.at(u[None])
        still = [rows.new_zeros(1, len(rows), layer.width) for layer in model.hidden]
        k = draw.last.cross(model.inputs(draw, rows, still))
        mean, _ = model.posterior(draw).moments(draw.last, k)
        return np.append(to_numpy(mean[..., 0]).ravel(), float(u.square().sum()))

    def _diagnose(self) -> None:
        if not self._traces:
            return
        names = [f"prediction of row {row + 1} of the fit" for row in self._watched()]
        traces = np.stack(self._traces)
        for name, trace in zip([*names, "size of the values"], traces.T, strict=True):
            self.diagnoses[name] = diagnose(trace[None])

    # ---- checkpoints ---------------------------------------------------------------------------

    def _tensors(self) -> list[Tensor]:
        """All that a step changes, but for what is kept of it."""
        own = [*self.chain.tensors(), self._window, self._curvature]
        return [*self.model.hyperparameters(), *own]

    def _state(self, done: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        tensors = self._tensors()
        arrays = persistence.history_arrays(self.history)
        arrays |= tensor_arrays(tensors, tensors, self.adam)
        if self._traces:
            arrays["traces"] = np.stack(self._traces)
        if self._kept:
            arrays["kept"] = to_numpy(torch.stack(self._kept))
        return arrays, {"iteration": done, "seconds": time.perf_counter() - self._began}

    def _restore(self, checkpoint: Checkpoint | None) -> int:
        """Go back to where the checkpoint was left; returns how many steps were done by then."""
        found = None if checkpoint is None else checkpoint.restore()
        if found is None:
            return 0
        arrays, facts = found
        tensors = self._tensors()
        restore_tensors(arrays, tensors, tensors, self.adam)
        self._traces = list(arrays["traces"]) if "traces" in arrays else []
        kept = torch.as_tensor(arrays["kept"].copy()).to(self.X) if "kept" in arrays else ()
        self._kept = list(kept)
        self.history = list(persistence.history_from(arrays))
        self._began = time.perf_counter() - facts["seconds"]
        return int(facts["iteration"])
