"""Fast LDGD: LDGD with an encoder network, fitted to mini-batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.advice import (
    MANY_ROWS,
    WIDE_TABLE,
    advised_batch_rate,
    advised_batches,
    advised_components,
    advised_inducing,
    advised_noise,
)
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import (
    BatchSize,
    ClassWeight,
    ColumnLikelihood,
    Components,
    Hidden,
    InducingOrAuto,
    LabelLikelihood,
    LabelWeightOrAuto,
    LearningRate,
    MapKernel,
    MaxIter,
    NoiseOrAuto,
)
from lvmcore.base.table_size import TableSize
from lvmcore.gp.columns.path import ColumnPath
from lvmcore.gp.labelled_model import LabelledGPLVM
from lvmcore.gp.labelled_settings import settle_label_weight
from lvmcore.gp.minibatch.amortised_fit import (
    encode_rows,
    encoder_state,
    fit_minibatches,
    fitted_subset,
    restore_encoder,
)
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.model import chosen_kernel, fit_likelihoods, restore_columns
from lvmcore.gp.rows.placement import refuse_shards
from lvmcore.neural.networks import Encoder
from lvmcore.parameters import Advanced, Advised, Doc, Range
from lvmcore.training.outcome import FitOutcome

__all__ = ["FastLDGD"]

SHORT_TABLE = 200
# Learning rates for more than MANY_ROWS rows; most rows for 100 inducing inputs, with which the
# bound of all rows takes 21 s of one core per million, 8 s with 50.
NARROW_RATE, WIDE_RATE = 0.15, 0.05
MOST_ROWS_OF_100 = 200_000
# Largest recommended label weights. Chosen by accuracy and log loss on the validation rows of wine,
# breast cancer, moons and oil flow: 4 improved accuracy on all, 15 was worse on breast cancer.
MOST_WEIGHT, NARROW_WEIGHT = 1000, 4
# Wide tables of at most so many rows, of which the encoder learns the labels by heart: label
# weight, steps, and steps that refine a new row by the Gaussian processes. Chosen on rows outside
# the fit: of 600 of mouse bladder (500 columns, 15 classes), accuracy and log loss were 0.888 and
# 0.39 with weight 33 and 1500 steps, 0.893 and 0.34 with these and 0.900 and 0.29 refined; of a
# part of one training fold of PBMC (765 columns, 8 classes) 0.817 and 0.56, refined 0.838 and 0.48.
FEW_ROWS, FEW_ROWS_WEIGHT, FEW_ROWS_STEPS, FEW_ROWS_REFINEMENT = 1000, 10, 300, 60


# For a short, narrow table.
USUAL_SETTINGS = {"n_inducing": Advised(25), "noise": Advised("column")}


@estimator_dataclass
class FastLDGD(LabelledGPLVM):
    """LDGD with an amortised q(x_n), for long tables and for many new rows.

    The model is LDGD's: x_n ~ N(0, I) drives Gaussian processes to the columns and to the labels.
    Here q(x_n) = N(mean(y_n), diag variance(y_n)) is the output of an encoder whose input is the
    columns without the label, so that a new row takes one forward pass and the number of parameters
    does not grow with the table. Each step estimates

    ELBO = Σ_n [E log p(y_n | f) + w E log p(label_n | f) − KL(q(x_n) ‖ N(0, I))] − KL(q(V) ‖ p)

    without bias from a batch of rows. Adam optimises the network, the kernels and the inducing
    inputs; both q(V) are updated by natural gradients, which for the columns gives the exact
    optimum for a running mean of the psi statistics, and the noise by the residual variance. A
    table that fits into one batch is fitted by the collapsed bound, and ``elbo_`` is always the
    collapsed bound over all rows. Several label columns have a path each, as in ``LDGD``.

    A missing cell drops out of the sum over cells: each column depends on its observed rows, and
    the mask of observed cells is an input of the encoder. New rows with missing cells, for an
    encoder that was fitted to complete rows, and imputations are inferred by the Gaussian processes
    as in ``LDGD``. The intervals of imputed cells are calibrated on cells held out from q(V).

    Attributes:
        classes_: the classes, sorted, [C].
        label_names_: names of the label columns, [L].
        relevance_: ``data`` and ``labels`` (or ``labels: NAME`` of each column) hold α = 1/ℓ² of
            each path, [Q].
        inducing_inputs_: under the same names, Z of each path, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of imputed cells, [D].
    """

    key: ClassVar[str] = "fast_ldgd"
    title: ClassVar[str] = "Fast LDGD"
    summary: ClassVar[str] = (
        "LDGD for long tables: a network places the rows, thousands of new ones a second."
    )
    paper: ClassVar[str] = "Ziaei et al. 2024"
    order: ClassVar[int] = 5
    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required",
        several_labels=True,
        missing_labels=True,
        missing_cells=True,
        sampling=True,
        uncertainty=True,
        bound=True,
        amortised=True,
        streams=True,
        gpu=True,
        shards=True,
    )
    label_draws: ClassVar[int] = 16

    _encoder: Encoder = fitted()

    n_components: Components = None
    n_inducing: InducingOrAuto = None
    max_iter: MaxIter = 1000
    label_weight: LabelWeightOrAuto = None
    class_weight: ClassWeight = "equal"
    likelihood: LabelLikelihood = "probit"
    n_hidden: Hidden = 128
    batch_size: BatchSize = 512
    n_refinement: Annotated[
        int,
        Range(0, 1000),
        Doc("Optimiser steps that refine the position of each new row after the encoder."),
        Advanced(),
    ] = 0
    noise: NoiseOrAuto = None
    learning_rate: LearningRate = 0.02
    column_likelihood: ColumnLikelihood = "gaussian"
    kernel: MapKernel = "rbf"

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """More inducing inputs and steps, and a higher learning rate, for longer tables.

        In a wide table the columns share one noise (see ``LDGD.suggest``); if the table is also
        short, the encoder overfits: with fewer steps the positions of new rows are better, and up
        to 1000 rows refined by the Gaussian processes.
        """
        n_rows, n_columns, n_classes = size.n_rows, size.n_columns, size.n_classes
        found = dict(USUAL_SETTINGS)
        few = _has_few_wide_rows(size)
        if n_columns > WIDE_TABLE:
            found["noise"] = advised_noise(n_columns)
            if n_rows <= SHORT_TABLE:
                found["max_iter"] = Advised(
                    100,
                    f"a network overfits {n_rows:,} rows; fewer steps are better for new rows",
                )
                return found
            if n_classes > 5:
                found["n_components"] = advised_components(n_columns, n_classes)
        if n_rows > 1000 or n_classes > 5:
            found |= _advised_for_large_table(size)
        if few:
            why = f"a network overfits {n_rows:,} rows of {n_columns:,} columns"
            found["max_iter"] = Advised(FEW_ROWS_STEPS, f"{why}; fewer steps are better")
            found["n_refinement"] = Advised(FEW_ROWS_REFINEMENT, why)
        return found

    @classmethod
    def largest_label_weight(cls, size: TableSize) -> float:
        """Up to 4, and in a wide table the ratio of columns to classes, of few rows at most 10.

        With less the encoder would hardly use the labels, with more its probabilities would be
        overconfident.
        """
        most = MOST_WEIGHT if size.n_columns > WIDE_TABLE else NARROW_WEIGHT
        if _has_few_wide_rows(size):
            most = FEW_ROWS_WEIGHT
        return float(max(1, min(size.n_columns // max(1, size.n_classes), most)))

    def _fit(self, problem: FitProblem) -> FitOutcome:
        expression = chosen_kernel(self, problem)
        weight = settle_label_weight(self, problem)
        labels = LabelSettings(self.likelihood, weight, self.class_weight)
        if self._column_terms is not None:
            refuse_shards()
            columns = fit_likelihoods(
                self,
                problem,
                self._column_terms,
                labels=labels,
                n_hidden=self.n_hidden,
                batch_size=self.batch_size,
            )
            assert columns.encoder is not None
            self._encoder = columns.encoder
            path = columns.objective.path
            assert isinstance(path, ColumnPath)
            self._store_paths(path, columns.objective.label_paths)
            return columns.outcome
        fit = fit_minibatches(self, problem, labels, expression)
        assert fit.encoder is not None
        self._encoder, self._decoder = fit.encoder, fit.decoder
        self.embedding_ = fit.embedding
        self._store_paths(fit.objective.path, fit.objective.label_paths)
        self._calibrate(problem, fit.outcome, fit.interval_scale)
        return fit.outcome

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        return fitted_subset(self.embedding_, self._to_tensor(np.zeros(1)))

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        infer = super()._posterior
        return encode_rows(self._encoder, self._decoder, Y, infer, refinement=self.n_refinement)

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super()._impute(Y.double())

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        (arrays, facts), (own, masked) = super()._get_state(), encoder_state(self._encoder)
        return arrays | own, facts | masked

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        like = self._to_tensor(np.zeros(1))
        restore_columns(self, facts)
        self._restore_data(arrays, like.double())
        self._encoder = restore_encoder(
            arrays,
            facts,
            n_columns=int((~self._standardiser.constant).sum()),
            n_components=self.embedding_.mean.shape[1],
            n_hidden=self.n_hidden,
            like=like,
        )


def _has_few_wide_rows(size: TableSize) -> bool:
    """Whether the encoder would learn the labels of the rows by heart."""
    return size.n_columns > WIDE_TABLE and SHORT_TABLE < size.n_rows <= FEW_ROWS


def _advised_for_large_table(size: TableSize) -> dict[str, Advised]:
    """Recommended settings for many rows or classes.

    Measured, one thread, M inducing inputs and H hidden units: seconds, and accuracy and log loss
    of other rows ("converged" is by two windows of the bound, whose trend still rose).

    20,000 rows of 10 columns and 8 classes: learning rate 0.02, M = 100, H = 256,
    2000 steps 67 s, not converged, 0.846; rate 0.15, H = 128: M = 100 32 s, converged, 0.848 and
    0.41; M = 50 17 s, 0.846 and 0.43; rate 0.3 no better. 100,000 rows of 50 columns: rate 0.02,
    M = 100, H = 256, 4000 steps 111 s, 0.864 and 0.323; rate 0.05, H = 128, 2000 steps: M = 100
    50 s, 0.862 and 0.325; M = 50 32 s, 0.864 and 0.336. MNIST, 8000 rows: rate 0.02, M = 100,
    H = 256 109 s, 0.945; H = 128: rate 0.05, M = 100 52 s, 0.942; M = 50 23 s, 0.947; rate 0.15,
    M = 50 20 s, 0.939.
    """
    n_rows = size.n_rows
    inducing, rate = 50, None
    if n_rows > MANY_ROWS:
        inducing = 50 if size.incomplete or n_rows > MOST_ROWS_OF_100 else 100
        rate = WIDE_RATE if size.n_columns > WIDE_TABLE else NARROW_RATE
    found = {
        "n_inducing": advised_inducing(inducing, n_rows, size.n_classes),
        "max_iter": advised_batches(),
    }
    if rate is not None:
        found["learning_rate"] = advised_batch_rate(rate, n_rows)
    return found
