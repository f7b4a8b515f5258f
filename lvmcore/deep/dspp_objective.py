"""The objective of a deep sigma point process, and its initialisation as a single process.

Notation: lvmcore/README.md and lvmcore/deep/dspp.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

import torch
from torch import Tensor

from lvmcore.deep.dspp import DSPP, marginal_moments
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.hidden_layer import InducingValues
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.deep.output_layer import InducingPosterior
from lvmcore.deep.warm_start import copy_kernel_and_noise
from lvmcore.numerics.linalg import cholesky_batch
from lvmcore.training.loop import train

__all__ = ["DSPPObjective", "start_from_single_gp"]

# Most rows and steps of the fit of the single process, and its learning rate.
MAX_SINGLE_GP_ROWS, SINGLE_GP_STEPS, SINGLE_GP_RATE = 2000, 300, 0.04


class DSPPObjective(DeepGPObjective):
    """Σ_n log p(y_n | x_n) − β Σ_l KL of layer l, without sampling.

    Args:
        model: initial model; fitted in place.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, [N, P].
        kl_weight: β.
        batch_size: B.
        generator: draws the batches.
    """

    model: DSPP

    def __init__(
        self,
        model: DSPP,
        X: Tensor,
        Y: Tensor,
        *,
        kl_weight: float,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(model, X, Y, n_samples=1, batch_size=batch_size, generator=generator)
        self.kl_weight = kl_weight

    def batch_terms(self) -> dict[str, Tensor]:
        """Unbiased estimates of the terms from the next batch."""
        batch = self.rows[self.batches.next()]
        weight = len(self.rows) / max(1, len(batch))
        return self._terms([(self.X[batch], self.Y[batch])], weight)

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows, which are exact: ``draws`` is not used."""
        del draws
        sites = len(self.model.weight_logits)
        return self._terms(self.model.row_blocks(self.X, self.Y, sites), 1.0)

    def _terms(self, parts: Iterable[tuple[Tensor, Tensor]], weight: float) -> dict[str, Tensor]:
        model, generator = self.model, self.generator
        draw = model.draw(1, generator)
        found = [
            model.log_density(draw, self._project(draw, X, Y, 1.0, generator)).sum()
            for X, Y in parts
        ]
        divergences = model.kl_terms(model.posterior(draw))
        return {"data fit": weight * torch.stack(found).sum()} | {
            name: self.kl_weight * term for name, term in divergences.items()
        }


def start_from_single_gp(
    model: DSPP,
    X: Tensor,
    Y: Tensor,
    generator: torch.Generator,
    *,
    steps: int,
    settings: DeepGPSettings,
) -> None:
    """Initialise the last layer as a single process fitted to the rows under the linear means.

    The last layer gets the kernel, noise, inducing inputs and q of the single process. q is the
    optimum of its bound for numbers; for classes, that of the last of its natural-gradient steps.

    Args:
        model: initial model; changed in place.
        X: inputs, [N, H].
        Y: targets, [N, P].
        generator: draws 2000 rows at most.
        steps: of the single process, 300 at most.
        settings: of the deep model, whose last kernel it gets.
    """
    rows = torch.randperm(len(X), generator=generator)[:MAX_SINGLE_GP_ROWS]
    X, Y = X[rows], Y[rows]
    with torch.no_grad():
        for number, layer in enumerate(model.hidden):
            if layer.composite is not None:
                X = marginal_moments(layer, layer.kernel_at(model.Z[number]), X)[0]
            elif layer.linear is not None:
                X = X @ layer.linear
    last, likelihood = model.last, model.last.likelihood
    assert isinstance(last.q, InducingValues)
    start = deepcopy(likelihood)
    alone = settings.single(X.shape[1], len(X))
    single = induced_deep_gp(alone, X, Y, model.Z[-1].detach(), start)
    fit = DeepGPObjective(single, X, Y, n_samples=1, batch_size=len(X), generator=generator)
    train(fit, deep_schedule(fit, min(steps, SINGLE_GP_STEPS), SINGLE_GP_RATE), None)
    with torch.no_grad():
        fit.batch_terms()  # updates a q of closed form to its optimum at the final parameters
        copy_kernel_and_noise(single.last, last)
        model.Z[-1].copy_(single.Z[-1])
        _set_posterior(last.q, single.posterior(single.draw(1, generator)))


def _set_posterior(values: InducingValues, posterior: InducingPosterior) -> None:
    """Set q to N(m_p, RᵀR), whose factor is diag(s)(I + B)."""
    covariance = (posterior.root.mT @ posterior.root).expand(len(values.mean), -1, -1)
    factor = cholesky_batch(covariance, "The covariance of the single process's values")
    scale = factor.diagonal(dim1=-2, dim2=-1)
    values.mean.copy_(posterior.mean)
    values.log_scale.copy_(scale.log())
    values.lower.copy_((factor / scale[:, :, None]).tril(-1))
