"""Fit of a GPLVM by mini-batches, and inference by the encoder where q(x) is the output of one.

What ``FastLDGD`` and ``StochasticGPLVM`` share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.inducing_points import inducing_count
from lvmcore.gp.latent_inference import RowDecoder, refine_rows
from lvmcore.gp.minibatch.data_term import WholeTable
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.minibatch.objective import MinibatchObjective, MinibatchSettings
from lvmcore.gp.minibatch.row_posteriors import EncodedRows
from lvmcore.gp.model import start_noise
from lvmcore.kernels.expression import KernelExpression
from lvmcore.neural.networks import Encoder, network_arrays, restore_network
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.threads import torch_threads
from lvmcore.results import Posterior
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule
from lvmcore.training.snapshots import thinned

__all__ = [
    "MinibatchFit",
    "encode_rows",
    "encoder_state",
    "fit_minibatches",
    "fitted_subset",
    "has_encoder",
    "restore_encoder",
]

# Samples of each row's position in the final bound, and most rows that they are drawn for: the
# error of the bound a row depends on their product with the number of rows.
FINAL_DRAWS, FINAL_ROWS = 8, 40_000
# Steps between two relocations of rows whose q(x) has parameters of its own.
RELOCATION_INTERVAL = 10


class MinibatchModel(MinibatchSettings, Protocol):
    """What the fit needs of a model."""

    max_iter: int
    settings_: dict[str, Any]

    def _note(self, text: str) -> None:
        """Add a note to the fit."""


@dataclass(frozen=True)
class MinibatchFit:
    """A fit by mini-batches.

    Attributes:
        objective: at its final parameters.
        outcome: of the optimisation.
        whole: q(X) of all rows and their psi statistics.
    """

    objective: MinibatchObjective
    outcome: FitOutcome
    whole: WholeTable

    @property
    def decoder(self) -> DataDecoder:
        """The data path at the optimal q(V) for all rows."""
        path = self.objective.path
        return path.decoder(path.optimum(self.whole.sums))

    @property
    def encoder(self) -> Encoder | None:
        """The encoder; None where each q(x) has parameters of its own."""
        rows = self.objective.rows
        return rows.encoder if isinstance(rows, EncodedRows) else None

    @property
    def embedding(self) -> Posterior:
        """q(X)."""
        return Posterior(to_numpy(self.whole.mean), to_numpy(self.whole.variance))

    def interval_scale(self, generator: torch.Generator) -> Tensor:
        """Interval scale of imputed cells from cells held out at random, [D]."""
        return self.objective.interval_scale(self.whole.sums, generator)


def fit_minibatches(
    model: MinibatchModel,
    problem: FitProblem,
    labels: LabelSettings | None = None,
    expression: KernelExpression | None = None,
    *,
    local: bool = False,
) -> MinibatchFit:
    """Fit q(X), Gaussian processes and q(V) to mini-batches.

    Args:
        model: settings of the fit; those that may be None are read from ``settings_``.
        problem: the problem to fit.
        labels: settings of the label terms; None without labels.
        expression: of the kernels; None for the RBF kernel.
        local: whether each q(x) has parameters of its own, in place of the encoder's output.
    """
    M = inducing_count(model.settings_["n_inducing"], len(problem.table), model._note)
    noise = start_noise(problem, model.settings_["noise"])
    fit = MinibatchObjective(model, problem, noise, M, labels, expression, local=local)
    labelled = sum(term.codes.numel() * term.n_classes for term in fit.labels)
    weight = 0.0 if labels is None else labels.label_weight
    schedule = Schedule.for_batches(
        model.max_iter,
        model.learning_rate,
        fit.path.cells + round(weight * labelled),
        n_rows=len(fit.table),
        size=fit.batches.size,
    )
    if local:
        schedule = replace(schedule, relocation=RELOCATION_INTERVAL)
    with torch_threads(1):
        outcome = train(
            fit,
            schedule,
            problem.callback,
            draws=max(1, min(FINAL_DRAWS, FINAL_ROWS // len(fit.table))),
            checkpoint=problem.checkpoint,
        )
    return MinibatchFit(fit, outcome, fit.whole_table())


def encode_rows(
    encoder: Encoder,
    decoder: RowDecoder,
    Y: Tensor,
    infer: Callable[[Tensor], tuple[Tensor, Tensor]],
    *,
    refinement: int = 0,
) -> tuple[Tensor, Tensor]:
    """q(x) of rows by the encoder, float64.

    Args:
        encoder: the fitted encoder.
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        infer: infers q(x) of rows with missing cells that the encoder cannot place, because the
            fit had none.
        refinement: optimiser steps that refine each position after the encoder.

    Returns:
        Means and variances, [B, Q] each.
    """
    observed = ~torch.isnan(Y)
    with torch.no_grad():
        inputs = decoder.distance_features(Y)
        mean, log_variance = encoder(inputs.nan_to_num(0.0), observed)
    mean, variance = mean.double(), log_variance.double().exp()
    gaps = ~observed.all(1)
    if not encoder.masked and bool(gaps.any()):
        mean[gaps], variance[gaps] = infer(Y[gaps].double())
    if refinement:
        return refine_rows(decoder, Y, mean, variance, max_iter=refinement)
    return mean, variance


def fitted_subset(embedding: Posterior, like: Tensor) -> tuple[Tensor, Tensor]:
    """q(x) of at most 2000 rows of the fit, at which the inference of incomplete rows starts.

    Args:
        embedding: q(X) of the fit.
        like: a tensor on the device to compute on.

    Returns:
        Means and variances, [n, Q] each, float64.
    """
    rows = thinned(len(embedding.mean))
    mean, variance = (
        torch.as_tensor(part[rows], dtype=torch.float64).to(like.device)
        for part in (embedding.mean, embedding.variance)
    )
    return mean, variance


def encoder_state(encoder: Encoder) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and facts of an encoder, for a file."""
    return network_arrays(encoder, "encoder."), {"told_of_gaps": encoder.masked}


def has_encoder(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the arrays of a file hold an encoder."""
    return any(name.startswith("encoder.") for name in arrays)


def restore_encoder(
    arrays: Mapping[str, NDArray[Any]],
    facts: Mapping[str, Any],
    *,
    n_columns: int,
    n_components: int,
    n_hidden: int,
    like: Tensor,
) -> Encoder:
    """The encoder that ``encoder_state`` describes.

    Args:
        arrays: from the file.
        facts: from the file.
        n_columns: D.
        n_components: Q.
        n_hidden: hidden units.
        like: dtype and device.
    """
    masked = bool(facts.get("told_of_gaps", False))  # earlier versions had no masked encoder
    encoder = Encoder(n_columns, n_hidden, n_components, like, torch.Generator(), masked=masked)
    restore_network(encoder, arrays, "encoder.")
    return encoder
