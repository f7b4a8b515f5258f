"""Fit of a map whose columns have likelihoods of their own, by batches of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from lvmcore.base.fit_problem import FitProblem
from lvmcore.base.initial_map import start_map
from lvmcore.gp.columns.decoder import ColumnDecoder
from lvmcore.gp.columns.objective import ColumnObjective, EncodedRows, FreeRows
from lvmcore.gp.columns.path import ColumnPath
from lvmcore.gp.inducing_points import inducing_count, spread_points
from lvmcore.gp.minibatch.objective import LabelSettings
from lvmcore.likelihoods.catalogue import ColumnTerm
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.neural.networks import Encoder
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.threads import torch_threads
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.results import Posterior
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

__all__ = ["ColumnFit", "fit_columns", "varying_terms"]

# Initial variance of q(x), rows in a batch where the model has no such setting, and samples of each
# row's position in the final bound.
START_VARIANCE, BATCH_ROWS, FINAL_DRAWS = 0.1, 512, 4


class ColumnModel(Protocol):
    """What the fit needs of a model."""

    max_iter: int
    learning_rate: float
    settings_: dict[str, Any]
    _standardiser: Standardiser

    def _note(self, text: str) -> None:
        """Add a note to the fit."""


@dataclass(frozen=True)
class ColumnFit:
    """A fit with a likelihood for each column.

    Attributes:
        objective: at its final parameters.
        outcome: of the optimisation.
        decoder: the fitted path to the columns.
        embedding: q(X).
        encoder: of the rows; None where each row has parameters of its own.
    """

    objective: ColumnObjective
    outcome: FitOutcome
    decoder: ColumnDecoder
    embedding: Posterior
    encoder: Encoder | None


def varying_terms(
    terms: tuple[ColumnTerm, ...], standardiser: Standardiser
) -> tuple[ColumnTerm, ...]:
    """The likelihoods of the features that vary: a category without the levels that no row has."""
    found, begin = [], 0
    for term in terms:
        gone = int(standardiser.constant[begin : begin + term.n_features].sum())
        begin += term.n_features
        if gone < term.n_features:
            found.append(replace(term, n_features=term.n_features - gone))
    return tuple(found)


def fit_columns(
    model: ColumnModel,
    problem: FitProblem,
    terms: tuple[ColumnTerm, ...],
    *,
    labels: LabelSettings | None = None,
    n_hidden: int | None = None,
    batch_size: int = BATCH_ROWS,
) -> ColumnFit:
    """Fit q(X), Gaussian processes and likelihoods to batches of rows.

    Args:
        model: settings of the fit.
        problem: the problem to fit.
        terms: a likelihood for each column that varies.
        labels: settings of the label terms; None without labels.
        n_hidden: hidden units of the encoder that places the rows; None for parameters of each row.
        batch_size: rows in a batch.
    """
    table, measured = problem.table, model._standardiser
    keep = ~measured.constant
    mean, scale = (
        torch.as_tensor(part[keep], dtype=torch.float64).to(table.like.device)
        for part in (measured.mean, measured.scale)
    )
    likelihood = MixedLikelihood(terms, mean, scale)
    Y, observed = table.take(slice(None))
    likelihood.start(Y.double(), observed)
    inputs = likelihood.inputs(Y.double()).to(table.like)
    if observed is not None:
        inputs = inputs * observed
    placed = replace(problem, table=InMemoryRows(inputs, observed))
    start = model.settings_.get("start", "pca")
    X = start_map(
        placed, "pca" if isinstance(start, str) and start == "auto" else start, model._note
    )
    M = inducing_count(model.settings_["n_inducing"], len(table), model._note)
    path = ColumnPath(spread_points(X.double(), M, problem.generator), likelihood)
    rows: FreeRows | EncodedRows = FreeRows(X, START_VARIANCE)
    encoder = None
    if n_hidden is not None:
        encoder = Encoder(
            table.n_columns,
            n_hidden,
            problem.n_components,
            table.like,
            problem.generator,
            masked=not table.complete,
        )
        encoder.start(placed.table, X)
        rows = EncodedRows(encoder, path)
    with torch_threads(1):
        fit = ColumnObjective(
            rows, path, problem, batch_size=batch_size, label_settings=labels, X=X.double()
        )
        outcome = train(
            fit,
            _schedule(model, fit, labels),
            problem.callback,
            draws=FINAL_DRAWS,
            checkpoint=problem.checkpoint,
        )
    mean, variance = fit.all_rows()
    embedding = Posterior(to_numpy(mean), to_numpy(variance))
    return ColumnFit(fit, outcome, path.column_decoder(), embedding, encoder)


def _schedule(model: ColumnModel, fit: ColumnObjective, labels: LabelSettings | None) -> Schedule:
    """Steps of Adam, for the number of cells and weighted labels in the bound."""
    cells = sum(
        len(Y) * fit.path.likelihood.n_columns if observed is None else _columns_seen(fit, observed)
        for Y, observed in fit.table.blocks()
    )
    labelled = sum(len(term.rows) * term.n_classes for term in fit.labels)
    weight = 0.0 if labels is None else labels.label_weight
    return Schedule.for_batches(
        model.max_iter,
        model.learning_rate,
        cells + round(weight * labelled),
        n_rows=len(fit.table),
        size=fit.batches.size,
    )


def _columns_seen(fit: ColumnObjective, observed: Tensor) -> int:
    """Number of observed cells of a block of rows, a category counted once."""
    firsts = torch.cat([block.firsts for block in fit.path.likelihood.blocks])
    return int(observed[:, firsts].sum())
