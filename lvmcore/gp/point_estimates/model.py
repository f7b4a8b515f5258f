"""Base class of Gaussian process latent variable models with point estimates of the positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import FitProblem, LatentVariableModel
from lvmcore.base.marginal_likelihood import log_marginal
from lvmcore.base.settings import MaxIter, Start
from lvmcore.base.table_size import TableSize
from lvmcore.errors import ConfigError
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.inducing_points import inducing_count, spread_points
from lvmcore.gp.point_estimates.marginal_likelihood import Approximation
from lvmcore.gp.point_estimates.objective import PathTerm, PointObjective, direct_schedule
from lvmcore.gp.point_estimates.paths import ColumnGroup, PointPath, column_groups
from lvmcore.gp.point_estimates.placement import (
    component_weights,
    decode_gaussians,
    gaussian_factors,
    place_rows,
)
from lvmcore.gp.point_estimates.positions import (
    KernelPositions,
    NetworkPositions,
    Positions,
    RowMap,
    restore_row_map,
    row_inputs,
)
from lvmcore.kernels.expression import KernelExpression
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Advised, Doc, is_array
from lvmcore.relevance import relevance_shares, total_effects
from lvmcore.results import Posterior
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome

__all__ = [
    "MOST_EXACT_ROWS",
    "ApproximationOrAuto",
    "PointGPLVM",
    "RowPlacement",
    "advised_approximation",
    "data_path",
    "fitted_placement",
    "function_path",
]

#: Rows up to which the covariance of all rows is factorised, and with missing cells, where each
#: pattern of them has its own.
MOST_EXACT_ROWS, MOST_INCOMPLETE_ROWS = 2000, 300
# Inducing inputs for up to so many rows.
INDUCING = ((300, 25), (1000, 50), (10**9, 100))

ApproximationOrAuto = Annotated[
    Literal["exact", "dtc", "fitc", "vfe"] | None,
    Doc(
        "Covariance of the rows: exact, up to 2000 rows, or by inducing inputs; auto is exact for "
        "short tables, else vfe.",
        "approximation",
    ),
    Advanced(),
]


@dataclass(frozen=True)
class RowPlacement:
    """A fitted back constraint: x = (g(inputs) − centre)/sd.

    Attributes:
        row_map: g.
        centre: [Q].
        sd: [Q].
        masked: whether the mask of observed cells is an input.
    """

    row_map: RowMap
    centre: Tensor
    sd: Tensor
    masked: bool

    def place(self, Y: Tensor) -> Tensor:
        """Positions of rows, 0 for a row without an observed cell, [n, Q]."""
        seen = ~torch.isnan(Y)
        inputs = row_inputs(torch.where(seen, Y, 0.0), seen, masked=self.masked)
        X = (self.row_map(inputs.to(self.centre)) - self.centre) / self.sd
        return torch.where(seen.any(1, keepdim=True), X, 0.0)


@estimator_dataclass
class PointGPLVM(LatentVariableModel):
    """Base of the models whose positions maximise log p(columns | X) + log p(X) + further terms.

    Positions have mean 0 and sd 1 in each dimension (``lvmcore.gp.point_estimates.positions``) and
    no posterior variance. The arithmetic is in float64 whatever the setting ``dtype``.
    """

    _decoder: DataDecoder = fitted()
    _placement: RowPlacement | None = fitted(default=None)
    _effects: tuple[Posterior, dict[str, FloatArray]] | None = fitted(default=None)

    max_iter: MaxIter = 500
    start: Start = "pca"

    @property
    def noise_variance_(self) -> NDArray[np.float64]:
        """σ² of the columns that vary, standardised units, [D]."""
        return to_numpy(self._decoder.noise)

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        """The number of dimensions of a given start, unless ``n_components`` is set."""
        start: Any = self.start
        if self.n_components is None and is_array(start) and np.ndim(start) == 2:
            return int(np.shape(start)[1])
        return super()._decide_components(shape)

    # ---- fitting -------------------------------------------------------------------------------

    def _train(self, problem: FitProblem, objective: PointObjective) -> FitOutcome:
        """Maximise the objective, and store the map and the path to the columns."""
        cells = sum(term.path.count for term in objective.summands if isinstance(term, PathTerm))
        outcome = train(
            objective,
            direct_schedule(self.max_iter, cells),
            problem.callback,
            checkpoint=problem.checkpoint,
        )
        with torch.no_grad():
            X = objective.draw_sample(1)
        self._decoder = objective.paths["data"].decoder(X)
        self.embedding_ = Posterior(to_numpy(X), np.zeros(X.shape))
        self._store_paths(objective)
        return outcome

    def _store_paths(self, objective: PointObjective) -> None:
        """Store what is shown of the paths."""
        with torch.no_grad():
            relevance = objective.relevance(objective.draw_sample(1))
        self.relevance_ = {name: to_numpy(alpha) for name, alpha in relevance.items()}
        self.inducing_inputs_ = {
            name: to_numpy(path.Z) for name, path in objective.paths.items() if path.is_sparse
        }

    # ---- predictions ---------------------------------------------------------------------------

    def _fitted_positions(self) -> Tensor:
        """X of the fit, [N, Q], float64."""
        return self._to_tensor(self.embedding_.mean).double()

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        Y, by_rows = Y.double(), self._placement
        with torch.no_grad():
            if by_rows is not None and (by_rows.masked or not bool(torch.isnan(Y).any())):
                X = by_rows.place(Y)
            else:
                X = place_rows(self._decoder, Y, self._fitted_positions()).mean[:, 0]
        return X, torch.zeros_like(X)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            return self._decoder.decode(X.double())

    def _metric(self, X: Tensor) -> Tensor:
        return self._decoder.metric(X.double())

    def _prior_variance_share(self, X: Tensor) -> Tensor:
        return self._decoder.prior_variance_share(X.double())

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments under Gaussians about the optima of each row's position."""
        Y = Y.double()
        with torch.no_grad():
            placed = place_rows(self._decoder, Y, self._fitted_positions())
            k = placed.mean.shape[1]
            factor = torch.stack(
                [gaussian_factors(self._decoder, Y, placed.mean[:, j]) for j in range(k)], 1
            )
            weights = component_weights(placed, factor)
            return decode_gaussians(self._decoder, placed.mean, factor, weights)

    def _log_density(self, Y: Tensor) -> Tensor:
        Y = Y.double()
        with torch.no_grad():
            X = place_rows(self._decoder, Y, self._fitted_positions()).mean[:, 0]
            variance = gaussian_factors(self._decoder, Y, X).square().sum(-1)
            return log_marginal(self._decoder.log_density, Y, X, variance)

    def variance_shares(self) -> dict[str, FloatArray]:
        """Share of each dimension in the variance of the columns, by total effects, [Q]."""
        check_is_fitted(self)
        if self._effects is None or self._effects[0] is not self.embedding_:
            effects = self._total_effects()
            self._effects = self.embedding_, relevance_shares(effects)
        return dict(self._effects[1])

    def _total_effects(self) -> dict[str, FloatArray]:
        def columns(X: FloatArray) -> FloatArray:
            return to_numpy(self._decode(self._to_tensor(X))[0])

        return {"data": total_effects(columns, self.embedding_.mean)}

    # ---- saving --------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, by_rows = self._decoder.arrays(), self._placement
        if by_rows is None:
            return arrays, {}
        moments = {"rows.centre": to_numpy(by_rows.centre), "rows.sd": to_numpy(by_rows.sd)}
        return arrays | by_rows.row_map.arrays() | moments, {"masked": by_rows.masked}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        like = self._to_tensor(np.zeros(1)).double()
        self._decoder = DataDecoder.from_arrays(arrays, like)
        self._placement = None
        if "rows.sd" in arrays:
            centre, sd = (torch.as_tensor(arrays[f"rows.{n}"].copy()) for n in ("centre", "sd"))
            row_map = restore_row_map(arrays, len(centre), like)
            moments = centre.to(like), sd.to(like)
            self._placement = RowPlacement(row_map, *moments, bool(facts["masked"]))


def fitted_placement(positions: Positions, *, masked: bool) -> RowPlacement | None:
    """How new rows are placed by a fitted back constraint; None for free positions.

    Args:
        positions: of the rows of the fit.
        masked: whether the mask of observed cells is an input.
    """
    if not isinstance(positions, KernelPositions | NetworkPositions):
        return None
    with torch.no_grad():
        centre, sd = positions.moments()
    row_map = positions.row_map().requires_grad_(False)
    return RowPlacement(row_map, centre, sd, masked)


def advised_approximation(size: TableSize) -> dict[str, Advised]:
    """The approximation and the number of inducing inputs for a table of this size."""
    M = next(M for most, M in INDUCING if size.n_rows <= most)
    inducing = {"n_inducing": Advised(M)}
    if size.n_rows > MOST_EXACT_ROWS:
        why = f"the exact covariance of {size.n_rows:,} rows would take too long"
        return {"approximation": Advised("vfe", why)} | inducing
    if size.incomplete and size.n_rows > MOST_INCOMPLETE_ROWS:
        why = "each pattern of missing cells has a covariance of its own"
        return {"approximation": Advised("vfe", why)} | inducing
    return {"approximation": Advised("exact")} | inducing


def data_path(
    model: PointGPLVM, problem: FitProblem, X: Tensor, expression: KernelExpression | None
) -> PointPath:
    """The initial path to the columns at the initial map X, [N, Q].

    Raises:
        ConfigError: the table has too many rows for the exact covariance.
    """
    return function_path(model, problem, X, column_groups(problem.Y, problem.observed), expression)


def function_path(
    model: PointGPLVM,
    problem: FitProblem,
    X: Tensor,
    groups: list[ColumnGroup],
    expression: KernelExpression | None,
) -> PointPath:
    """An initial path to groups of columns, by the settings of the model.

    Raises:
        ConfigError: the table has too many rows for the exact covariance.
    """
    how: Approximation = model.settings_["approximation"]
    if how == "exact":
        if len(X) > MOST_EXACT_ROWS:
            raise ConfigError(
                f"approximation='exact' takes at most {MOST_EXACT_ROWS:,} rows, and the table has "
                f"{len(X):,}. Choose vfe or fitc, which use inducing inputs."
            )
        return PointPath(groups, how, X[:1], expression)
    M = inducing_count(model.settings_["n_inducing"], len(X), model._note)
    return PointPath(groups, how, spread_points(X, M, problem.generator), expression)
