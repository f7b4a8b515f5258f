"""Bayesian Gaussian process latent variable model, fitted to mini-batches (GPLVM-SVI)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.advice import MANY_ROWS, advised_batch_rate, advised_batches, advised_map
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import (
    BatchSize,
    ColumnLikelihood,
    Dimensions,
    Hidden,
    InducingOrAuto,
    LearningRate,
    MapKernel,
    MaxIter,
    NoiseOrAuto,
)
from lvmcore.base.table_size import TableSize
from lvmcore.gp.minibatch.amortised_fit import (
    encode_rows,
    encoder_state,
    fit_minibatches,
    fitted_subset,
    has_encoder,
    restore_encoder,
)
from lvmcore.gp.model import (
    GPLatentVariableModel,
    chosen_kernel,
    fit_likelihoods,
    restore_columns,
)
from lvmcore.gp.rows.placement import refuse_shards
from lvmcore.neural.networks import Encoder
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised, Doc
from lvmcore.training.outcome import FitOutcome

__all__ = ["StochasticGPLVM"]

# Inducing inputs of tables with more than FEW rows, and of shorter ones; rate for long tables.
FEW, INDUCING, FEWER = 1000, 50, 25
LONG_TABLE_RATE = 0.15


@estimator_dataclass
class StochasticGPLVM(GPLatentVariableModel):
    """The Bayesian GPLVM by stochastic variational inference, for long tables with missing cells.

    The model is that of ``BayesianGPLVM``: x_n ~ N(0, I), y_nd = f_d(x_n) + ε, f_d ~ GP(0,
    RBF-ARD). With ``latent_posterior="encoder"`` q(x_n) = N(mean(y_n), diag variance(y_n)) is the
    output of an encoder, whose input is the row, 0 where a cell is missing, and the mask of its
    observed cells. With "free" each q(x_n) has a mean and a variance of its own, which the steps
    whose batch has the row update, by Adam with moments of each row. Each step estimates

    ELBO = Σ_n [Σ_d E log p(y_nd | f_d) − KL(q(x_n) ‖ N(0, I))] − KL(q(V) ‖ p),

    d over the observed cells of row n, without bias from a batch of rows and one sample of each
    q(x_n): doubly stochastic variational inference (Lalchand, Ravuri and Lawrence 2022; bound of
    Titsias and Lawrence 2010). In place of that paper's gradients for q(V), q(V) is the exact
    optimum for a running mean of the psi statistics, by natural gradients, and the noise follows
    the residual variance; Adam optimises q(X), the kernel and the inducing inputs. Rows with a q(x)
    of their own are also moved, every ten steps some of them, to the position of another row where
    they fit better. A table that fits into one batch is fitted by the collapsed bound, and
    ``elbo_`` is always the collapsed bound over all rows.

    New rows are placed by the encoder. Without one, and for rows with missing cells where the fit
    had none, they are inferred by the Gaussian processes, as imputations always are. The intervals
    of imputed cells are calibrated on cells held out from q(V).

    Attributes:
        relevance_: ``data`` holds α = 1/ℓ², [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of imputed cells, [D].
    """

    key: ClassVar[str] = "stochastic_gplvm"
    title: ClassVar[str] = "Stochastic Bayesian GPLVM (GPLVM-SVI)"
    summary: ClassVar[str] = (
        "The Bayesian GPLVM for long tables with missing cells: a network places the rows."
    )
    paper: ClassVar[str] = "Lalchand et al. 2022"
    order: ClassVar[int] = 13
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True,
        sampling=True,
        uncertainty=True,
        bound=True,
        amortised=True,
        streams=True,
        gpu=True,
        shards=True,
    )

    #: None where each q(x) has parameters of its own.
    _encoder: Encoder | None = fitted(default=None)

    n_components: Dimensions = None  # type: ignore[assignment] # the base class has no "ard"
    n_inducing: InducingOrAuto = None
    max_iter: MaxIter = 1000
    latent_posterior: Annotated[
        Literal["encoder", "free"],
        Doc(
            "Posterior of a row's position: the output of an encoder network, or free, a mean and "
            "a variance for each row.",
            "posterior of positions",
        ),
    ] = "encoder"
    n_hidden: Hidden = 128
    batch_size: BatchSize = 512
    noise: NoiseOrAuto = None
    learning_rate: LearningRate = 0.02
    column_likelihood: ColumnLikelihood = "gaussian"
    kernel: MapKernel = "rbf"

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """Dimensions and noise as for ``BayesianGPLVM``; more steps for longer tables.

        Measured, one core, curved tables of 10 and 50 columns with 5 % of the cells missing, 50
        inducing inputs, bound in nats a cell. 20,000 x 10, 1000 steps, 18 s: learning rate 0.02
        −0.963, 0.05 −0.933, 0.15 −0.908; 1675 steps at 0.15, 30 s: −0.862. 100,000 x 50, 1000
        steps, 28 s: 0.05 −0.444, 0.15 −0.431.
        """
        found = advised_map(size) | {
            "n_inducing": Advised(INDUCING if size.n_rows > FEW else FEWER)
        }
        if size.n_rows > FEW:
            found["max_iter"] = advised_batches()
        if size.n_rows > MANY_ROWS:
            found["learning_rate"] = advised_batch_rate(LONG_TABLE_RATE, size.n_rows)
        return found

    def _fit(self, problem: FitProblem) -> FitOutcome:
        expression, local = chosen_kernel(self, problem), self.latent_posterior == "free"
        if self._column_terms is not None:
            refuse_shards()
            columns = fit_likelihoods(
                self,
                problem,
                self._column_terms,
                n_hidden=None if local else self.n_hidden,
                batch_size=self.batch_size,
                local=local,
            )
            self._encoder = columns.encoder
            return columns.outcome
        fit = fit_minibatches(self, problem, expression=expression, local=local)
        self._encoder, self._decoder = fit.encoder, fit.decoder
        self.embedding_ = fit.embedding
        self.relevance_ = {"data": to_numpy(fit.objective.path.kernel.relevance)}
        self.inducing_inputs_ = {"data": to_numpy(fit.objective.path.Z)}
        self._calibrate(problem, fit.outcome, fit.interval_scale)
        return fit.outcome

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        return fitted_subset(self.embedding_, self._to_tensor(np.zeros(1)))

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        infer = super()._posterior
        if self._encoder is None:
            return infer(Y.double())
        return encode_rows(self._encoder, self._decoder, Y, infer)

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super()._impute(Y.double())

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        if self._encoder is None:
            return arrays, facts
        own, masked = encoder_state(self._encoder)
        return arrays | own, facts | masked

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        like = self._to_tensor(np.zeros(1))
        restore_columns(self, facts)
        self._restore_data(arrays, like.double())
        self._encoder = None
        if not has_encoder(arrays):
            return
        self._encoder = restore_encoder(
            arrays,
            facts,
            n_columns=int((~self._standardiser.constant).sum()),
            n_components=self.embedding_.mean.shape[1],
            n_hidden=self.n_hidden,
            like=like,
        )
