"""Base class of the deep Gaussian process models: settings, fitting, predictions, storage.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import HeldOutRows, Predictor, SupervisedFitProblem, Task
from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.hidden_layer import InducingValues
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.layer_kernel import KernelName
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.errors import DataError
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised
from lvmcore.persistence import with_prefix
from lvmcore.preprocessing.cell_types import Cells
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import FitOutcome, train

__all__ = [
    "LONG_TABLE",
    "DeepGPPredictor",
    "likelihood_of",
]

#: Draws in the average of a prediction, and of the final bound.
PREDICTED_DRAWS, FINAL_DRAWS = 50, 100
#: Draws of a held-out score, and scores without an improvement before early stopping.
HELD_OUT_DRAWS, PATIENCE = 10, 5
#: Initial σ² of a numeric target, as a share of its variance.
START_NOISE = 0.05
#: Tables with more rows are advised to use more inducing variables.
LONG_TABLE = 2000


def likelihood_of(
    task: Task, n_outputs: int, like: Tensor, exponent: float = 2.0
) -> GaussianNoise | SoftmaxClasses:
    """The initial likelihood: Gaussian or q-exponential of a number; probit or softmax of classes.

    Args:
        task: prediction of a number or of a class.
        n_outputs: P; probit for one output (two classes), softmax for more.
        like: dtype and device.
        exponent: q of the noise of a number; 2 for a Gaussian.
    """
    if task == "number" and exponent < 2:
        return QExponentialNoise(START_NOISE, like, exponent)
    if task == "number":
        return GaussianNoise(START_NOISE, like)
    return SoftmaxClasses("probit" if n_outputs == 1 else "softmax", like)


class DeepGPPredictor(Predictor):
    """A predictor whose function is a ``DeepGP``; a subclass builds it in ``_model``."""

    # Values of models without these settings, a single Gaussian process.
    n_layers: int = 0
    q: float = 2.0
    kernel: KernelName = "rbf"
    # Quadratic forms of inverses need more digits than single precision has.
    dtype: str = "float64"
    hidden_dim: int | None = None
    n_samples: int = 1

    n_inducing: int
    max_iter: int
    learning_rate: float
    batch_size: int

    _gp: DeepGP
    _kept: DeepGPDraws

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """More inducing points for long tables."""
        del n_columns, n_classes, cells
        if n_rows <= LONG_TABLE:
            return {}
        return {"n_inducing": Advised(100, f"more than {LONG_TABLE} rows have finer detail")}

    def _settings(self) -> DeepGPSettings:
        """Settings of the initial deep Gaussian process."""
        return DeepGPSettings(
            n_hidden=self.n_layers,
            width=self.hidden_dim,
            batch_size=self.batch_size,
            exponent=self.q,
            kernel=self.kernel,
        )

    @property
    def _n_hidden_layers(self) -> int:
        return len(self._gp.hidden)

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: SupervisedFitProblem) -> FitOutcome:
        X, Y, generator = problem.X, problem.Y, problem.generator
        likelihood = likelihood_of(self.task, Y.shape[1], X, self.q)
        self._gp = self._model(X, Y, likelihood, generator).to(X)
        self._note_few()
        fit = self._objective(X, Y, generator)
        schedule = deep_schedule(fit, self.max_iter, self.learning_rate)
        outcome = train(
            fit,
            schedule,
            problem.callback,
            draws=max(1, FINAL_DRAWS // self.n_samples),
            checkpoint=problem.checkpoint,
            held_out=self._follow(fit, problem.unseen),
        )
        rows = (X, Y)
        if problem.aside is not None:
            rows = torch.cat([X, problem.aside[0]]), torch.cat([Y, problem.aside[1]])
        self._keep(PREDICTED_DRAWS, generator, rows)
        self._finish(*rows)
        self._measure_layers()
        return outcome

    def _objective(self, X: Tensor, Y: Tensor, generator: torch.Generator) -> DeepGPObjective:
        """The objective of the initial model."""
        return DeepGPObjective(
            self._gp,
            X,
            Y,
            n_samples=self.n_samples,
            batch_size=self.batch_size,
            generator=generator,
        )

    def _keep(
        self, draws: int, generator: torch.Generator, rows: tuple[Tensor, Tensor] | None
    ) -> None:
        """Draw and store the functions of the predictions, given rows X and Y if q needs them."""
        given = rows if self._gp.posterior_per_draw else None
        samples = draws if len(self._gp.hidden) else 1
        self._kept = DeepGPDraws.from_model(self._gp, samples, generator, given)

    def _follow(self, fit: DeepGPObjective, unseen: HeldOutRows | None) -> HeldOutTracking | None:
        """NLPP of held-out rows, by the same few draws at every measurement.

        With mini-batches or classes it uses the running q of the steps; the optimal q of all rows
        is computed at the end only.
        """
        if unseen is None:
            return None
        closed = fit.batches.whole and self._gp.last.closed_form
        rows = (fit.X, fit.Y) if closed else None

        def measure() -> float:
            self._keep(HELD_OUT_DRAWS, torch.Generator().manual_seed(0), rows)
            return float(-self._log_density(unseen.X, unseen.y).mean())

        return HeldOutTracking(measure, PATIENCE if unseen.stops else None)

    def _finish(self, X: Tensor, Y: Tensor) -> None:
        """Quantities computed from all rows after the last step; none by default."""

    def _note_few(self) -> None:
        used = self._gp.n_inducing
        if used < self.n_inducing:
            self._note(
                f"n_inducing reduced from {self.n_inducing} to {used}: there are no more different "
                "rows."
            )

    @abstractmethod
    def _model(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        generator: torch.Generator,
    ) -> DeepGP:
        """The initial model for rows X [N, H] and targets Y [N, P]."""

    @abstractmethod
    def _blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
    ) -> DeepGP:
        """A model with inducing inputs X [M, H], as a container for a stored state."""

    def _measure_layers(self) -> None:
        layers = [*self._gp.hidden, self._gp.last]
        self.relevance_ = {
            f"layer{number}": to_numpy(layer.relevance)
            for number, layer in enumerate(layers, start=1)
        }
        idle = sum(v.unused_entries for v in self._gp.modules() if isinstance(v, InducingValues))
        moved = sum(p.numel() for p in self._gp.parameters() if p.requires_grad)
        self.n_parameters_ = moved - idle

    # ---- predictions ---------------------------------------------------------------------------

    def _predicted(self, X: Tensor) -> tuple[Tensor, Tensor]:
        (mean, variance), likelihood = self._kept.predict(X), self._gp.last.likelihood
        assert isinstance(likelihood, GaussianNoise)
        # The mixture has S K components: K variances of the noise for each of S draws.
        noise = likelihood.noise_mixture[0].detach()
        total = variance[..., 0].T[:, :, None] + noise
        return mean[..., 0].T.repeat_interleave(len(noise), 1), total.flatten(1)

    def _weights(self) -> NDArray[np.float64] | None:
        likelihood = self._gp.last.likelihood
        if not isinstance(likelihood, QExponentialNoise):
            return None
        weights, samples = to_numpy(likelihood.noise_mixture[1]), self._kept.draw.samples
        return np.tile(weights, samples) / samples

    def _probability(self, X: Tensor) -> Tensor:
        likelihood = self._gp.last.likelihood
        assert isinstance(likelihood, SoftmaxClasses)
        return likelihood.probability(*self._kept.predict(X))

    def _hidden_units(self, X: Tensor, layer: int) -> Tensor:
        return self._kept.hidden_means(X, layer)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        parts = {"gp": self._gp.state_dict(), "kept": self._kept.tensors()}
        arrays = {
            f"{part}.{name}": np.asarray(tensor.detach().cpu().numpy())
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }
        facts = {
            "widths": [layer.width for layer in self._gp.hidden],
            "inducing": self._gp.n_inducing,
            "outputs": self._n_outputs(),
            "exponent": self._gp.last.q.exponent,
            "kernel": self._gp.last.kernel,
        }
        return arrays, facts

    def _n_outputs(self) -> int:
        if self.task == "number":
            return 1
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        columns = int((~self._standardiser.constant).sum())
        X = self._to_tensor(np.zeros((int(facts["inducing"]), columns)))
        Y = X.new_zeros(len(X), int(facts["outputs"]))
        widths = facts["widths"]
        settings = DeepGPSettings(
            n_hidden=len(widths),
            width=widths[0] if widths else None,
            exponent=facts.get("exponent", 2.0),
            kernel=facts.get("kernel", "rbf"),
        )
        likelihood = likelihood_of(self.task, Y.shape[1], X, settings.exponent)
        blank = self._blank(settings, X, Y, likelihood).to(X)
        if "kept.mean" not in arrays:
            raise DataError("The model was saved by an earlier version: fit it again.")
        stored = {
            part: {name: torch.as_tensor(a.copy()) for name, a in with_prefix(arrays, part).items()}
            for part in ("gp.", "kept.")
        }
        blank.load_state_dict(stored["gp."])
        self._gp = blank
        self._kept = DeepGPDraws.from_tensors(
            blank, {name: tensor.to(X.device) for name, tensor in stored["kept."].items()}
        )
        self._measure_layers()
