"""SGHMC for a deep Gaussian process: a warm-up that fits the parameters, then samples.

Moving-window Monte Carlo EM (Havasi, Hernández-Lobato and Murillo-Fuentes 2018): during warm-up an
Adam step on the log joint of the data and a random one of the latest samples follows each step of
the chain. Then parameters, masses and step size are fixed, so that the stored samples come from one
Markov chain with one stationary distribution.

Notation: lvmcore/README.md and lvmcore/deep/sampled_deep_gp.py.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.deep.objective import DeepGPObjective
from lvmcore.deep.sampled_deep_gp import SampledDeepGP
from lvmcore.errors import NumericalError
from lvmcore.mcmc.chains import MAX_R_HAT
from lvmcore.mcmc.diagnostics import ChainDiagnostics, chain_diagnostics
from lvmcore.mcmc.sghmc_sampler import SGHMCSampler
from lvmcore.numerics.conversion import to_numpy
from lvmcore.persistence import history_arrays, history_from_arrays
from lvmcore.results import Callback, FitStep
from lvmcore.training.adam import Adam
from lvmcore.training.checkpoint import Checkpoint, restore_tensors, tensor_arrays
from lvmcore.training.outcome import FitOutcome

__all__ = ["DeepChain"]

#: Warm-up steps as a share of all steps; share of those in which the learning rate decreases to 0.
WARM_UP, SETTLING_SHARE = 0.6, 0.4
#: Latest samples that the parameters are fitted to.
WINDOW = 100
FRICTION = 0.1
# Warm-up steps between estimates of the curvature, and between pairs of gradients; the least weight
# of a new estimate in the running curvature.
CURVATURE_GAP, PAIR_GAP, MIN_CURVATURE_SHARE = 10, 5, 0.1
# First steps of Adam, in which its learning rate increases.
INITIAL_ADAM_STEPS = 10
#: Rows whose predictions the diagnostics use.
N_MONITORED_ROWS = 4
SNAPSHOT_SECONDS = 0.25


class DeepChain:
    """A chain together with the parameters of its model.

    Args:
        model: the model, changed in place; its first stored sample initialises the chain.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, [N, P].
        max_iter: steps, including the warm-up.
        n_kept: stored samples at most.
        step_size: ε of `mcmc.sghmc_sampler`.
        learning_rate: Adam's.
        batch_size: B.
        generator: of batches and draws.

    Attributes:
        history: every step, with an estimate of its log likelihood.
        diagnoses: R̂ of the two halves of the samples after the warm-up, and their effective sample
            size, by quantity.
        cut_short: whether it stopped before a sample was stored; the model then has the chain's
            last position.
    """

    def __init__(
        self,
        model: SampledDeepGP,
        X: Float[Tensor, "N H"],
        Y: Float[Tensor, "N P"],
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
        self._settling = round(SETTLING_SHARE * self.warm_up)
        self._thin = -(-(max_iter - self.warm_up) // n_kept)
        self._shown = DeepGPObjective(
            model, X, Y, n_samples=1, batch_size=batch_size, generator=generator
        )
        self._batch_size = batch_size
        # Gradients are exact with all rows and without hidden layers.
        self._noisy = batch_size < len(X) or len(model.hidden) > 0
        self.chain = SGHMCSampler(model.kept[0], generator, step_size=step_size, friction=FRICTION)
        self._window = model.kept[0].expand(WINDOW, -1, -1).clone()
        self._curvature = torch.zeros_like(self.chain.factor)
        self.adam = Adam(model.hyperparameters())
        self._kept: list[Tensor] = []
        self._traces: list[NDArray[np.float64]] = []
        self.history: list[FitStep] = []
        self.diagnoses: dict[str, ChainDiagnostics] = {}
        self.cut_short = False
        self._began = time.perf_counter()
        self._last_snapshot = -math.inf

    def run(self, callback: Callback | None, checkpoint: Checkpoint | None) -> FitOutcome:
        """Run the chain to its end or until the callback stops it, and store samples in the model.

        Args:
            callback: called with each step; True stops the run.
            checkpoint: to resume from, and to save to at intervals and at a stop; a resumed run
                gives the same result as an uninterrupted one.

        Returns:
            NaN for the bound, as there is none; converged if every R̂ is at most ``MAX_R_HAT``.

        Raises:
            NumericalError: the chain diverged.
        """
        done = self._restore(checkpoint)
        stopped = False
        while not stopped and done < self.max_iter:
            log_likelihood = (
                self._warm_up_step(done) if done < self.warm_up else self._sampling_step(done)
            )
            done += 1
            stopped = self._report(done, log_likelihood, callback)
            if checkpoint is not None and (stopped or checkpoint.due()):
                checkpoint.save(*self._state(done))
        self.cut_short = not self._kept
        self.model.kept = torch.stack(self._kept or [self.chain.position.clone()])
        self._diagnose()
        known = [one.r_hat for one in self.diagnoses.values() if not math.isnan(one.r_hat)]
        converged = bool(known) and max(known) <= MAX_R_HAT
        return FitOutcome(math.nan, tuple(self.history), converged and not stopped, stopped)

    # ---- steps ---------------------------------------------------------------------------------

    def _warm_up_step(self, done: int) -> float:
        """A step of chain, masses and parameters; returns the log likelihood before it."""
        chain = self.chain
        if done == self.warm_up - self._settling:
            chain.reset_averages()
        gradient, log_likelihood = self._gradient()
        if self._noisy and done % PAIR_GAP == 0:
            chain.update_gradient_noise(gradient, self._gradient()[0])
        if done % CURVATURE_GAP == 0:
            share = max(MIN_CURVATURE_SHARE, 1 / (1 + done // CURVATURE_GAP))
            found = self.model.curvature(chain.position, *self._rows(), self.generator)
            self._curvature.lerp_(found, share)
            chain.set_preconditioner(self._curvature)
        chain.update_masses(gradient)
        chain.step(gradient)
        self._window[done % WINDOW] = chain.position
        self._parameter_step(done)
        return log_likelihood

    def _sampling_step(self, done: int) -> float:
        """A step of the chain, whose sample is stored at intervals."""
        gradient, log_likelihood = self._gradient()
        self.chain.step(gradient)
        self._traces.append(self._quantities())
        if (self.max_iter - 1 - done) % self._thin == 0:
            self._kept.append(self.chain.position.clone())
        return log_likelihood

    def _rows(self) -> tuple[Tensor, Tensor, float]:
        """A batch: inputs, targets, and the number of rows that each represents.

        Batches are sampled independently. In epochs the errors of batches cancel, and the chain,
        which assumes independent errors, would compensate for noise that is not there.
        """
        N = len(self.X)
        if self._batch_size >= N:
            return self.X, self.Y, 1.0
        batch = torch.randperm(N, generator=self.generator)[: self._batch_size]
        return self.X[batch], self.Y[batch], N / len(batch)

    def _gradient(self) -> tuple[Tensor, float]:
        """∇_u of −log π at the chain's position, and the log likelihood there, both estimated."""
        u = self.chain.position.detach().clone().requires_grad_()
        value = self.model.log_likelihood(u, *self._rows(), self.generator)
        (slope,) = torch.autograd.grad(value, u)
        gradient = u.detach() - slope
        if not bool(torch.isfinite(gradient).all()):
            raise NumericalError(
                "The chain diverged. Try a smaller step size, a lower learning "
                "rate or another seed, and look for columns with extreme values."
            )
        return gradient, float(value.detach())

    def _parameter_step(self, done: int) -> None:
        """An Adam step of the parameters on the log joint, at one of the latest samples."""
        left = min(1.0, (self.warm_up - done) / max(1, self._settling))
        rate = self.learning_rate * min(1.0, (done + 1) / INITIAL_ADAM_STEPS) * left
        which = int(torch.randint(min(done + 1, WINDOW), (1,), generator=self.generator))
        self.adam.zero_grad()
        value = self.model.log_likelihood(self._window[which], *self._rows(), self.generator)
        (-value).backward()  # type: ignore[no-untyped-call]
        self.adam.step(rate)

    def _report(self, done: int, log_likelihood: float, callback: Callback | None) -> bool:
        seconds = time.perf_counter() - self._began
        terms = {"log likelihood": log_likelihood}
        step = FitStep(done, self.max_iter, seconds, math.nan, terms)
        self.history.append(step)
        if callback is None:
            return False
        ends = done == self.max_iter
        if ends or seconds - self._last_snapshot >= SNAPSHOT_SECONDS:
            self._last_snapshot = seconds
            self.model.kept = self.chain.position[None].clone()
            shown = self._shown.snapshot()
            step = FitStep(done, self.max_iter, seconds, math.nan, terms, shown, ends=ends)
        return bool(callback(step))

    # ---- diagnostics ---------------------------------------------------------------------------

    def _monitored_rows(self) -> NDArray[np.intp]:
        """Positions of rows spread over the table."""
        return np.unique(np.linspace(0, len(self.X) - 1, N_MONITORED_ROWS).astype(np.intp))

    @torch.no_grad()
    def _quantities(self) -> NDArray[np.float64]:
        """Σ u², and means of the first output at some rows, without noise in hidden layers."""
        model, u = self.model, self.chain.position
        rows, draw = self.X[torch.as_tensor(self._monitored_rows())], model.function_draw(u[None])
        zero = [rows.new_zeros(1, len(rows), layer.width) for layer in model.hidden]
        inputs = model.inputs(draw, rows, zero)
        mean, _ = model.posterior(draw).moments(
            draw.last, draw.last.cross(inputs), draw.last.diagonal(inputs)
        )
        return np.append(to_numpy(mean[..., 0]).ravel(), float(u.square().sum()))

    def _diagnose(self) -> None:
        if not self._traces:
            return
        names = [f"prediction of row {row + 1} of the fit" for row in self._monitored_rows()]
        traces = np.stack(self._traces)
        for name, trace in zip([*names, "size of the values"], traces.T, strict=True):
            self.diagnoses[name] = chain_diagnostics(trace[None])

    # ---- checkpoints ---------------------------------------------------------------------------

    def _tensors(self) -> list[Tensor]:
        """All tensors that a step changes, other than stored samples."""
        own = [*self.chain.tensors(), self._window, self._curvature]
        return [*self.model.hyperparameters(), *own]

    def _state(self, done: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        tensors = self._tensors()
        arrays = history_arrays(self.history)
        arrays |= tensor_arrays(tensors, tensors, self.adam)
        if self._traces:
            arrays["traces"] = np.stack(self._traces)
        if self._kept:
            arrays["kept"] = to_numpy(torch.stack(self._kept))
        return arrays, {"iteration": done, "seconds": time.perf_counter() - self._began}

    def _restore(self, checkpoint: Checkpoint | None) -> int:
        """Restore the state of the checkpoint; returns its number of steps."""
        found = None if checkpoint is None else checkpoint.restore()
        if found is None:
            return 0
        arrays, facts = found
        tensors = self._tensors()
        restore_tensors(arrays, tensors, tensors, self.adam)
        self._traces = list(arrays["traces"]) if "traces" in arrays else []
        kept = torch.as_tensor(arrays["kept"].copy()).to(self.X) if "kept" in arrays else ()
        self._kept = list(kept)
        self.history = list(history_from_arrays(arrays))
        self._began = time.perf_counter() - facts["seconds"]
        return int(facts["iteration"])
