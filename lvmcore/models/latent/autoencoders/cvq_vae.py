"""Clustering vector-quantised autoencoder: a map whose points are rounded to learned codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import BatchSize, Components, Hidden, LearningRate, MaxIter
from lvmcore.base.validation import require_labels
from lvmcore.neural.autoencoder import Autoencoder
from lvmcore.neural.codebook import Codebook, CodebookObjective, UnusedCodes, code_perplexity
from lvmcore.neural.objective import AutoencoderNetworks
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.results import FitStep, Posterior
from lvmcore.training.outcome import FitOutcome

__all__ = ["CVQVAE"]

#: Least mean squared residual of a column, in units of its variance.
NOISE_FLOOR = 1e-6
#: Names of the terms of the loss in the history, by those of the objective.
LOSSES = {"data fit": "squared error", "codebook": "codebook", "commitment": "commitment"}

Codes = Annotated[
    int,
    Range(2, 8192),
    Doc(
        "Codes that the points of the map are rounded to before they are decoded: more tell finer "
        "differences, and need more rows.",
        "codes",
    ),
]
Commitment = Annotated[
    float,
    Range(0.0, 100.0),
    Doc("Weight by which the points are drawn to their codes; 0.25 is published."),
    Advanced(),
]
UnusedCodesChoice = Annotated[
    UnusedCodes,
    Doc(
        "Where unused codes move: to a row drawn by its distance, to the nearest row, or nowhere "
        "(stay: a plain VQ-VAE).",
        "unused codes",
    ),
    Advanced(),
]


@estimator_dataclass
class CVQVAE(Autoencoder):
    """Vector-quantised autoencoder with clustering of unused codes (Zheng and Vedaldi 2023).

    An encoder network maps a row y_n to a point z_n, which is its position on the map; the nearest
    of K codes e_k replaces it, and a decoder network f maps that to the columns. It minimises the
    mean over rows of

    1/D ‖y_n − f(e_k)‖² + 1/Q ‖sg(z_n) − e_k‖² + β/Q ‖z_n − sg(e_k)‖²

    with standardised columns and sg without a gradient; the gradient of the first term by e_k is
    that by z_n (van den Oord, Vinyals and Kavukcuoglu 2017). In a plain VQ-VAE most codes are never
    used. Here a running average N_k of the share of each code moves the unused ones to encoded
    rows: e_k ← (1 − α_k) e_k + α_k ẑ_k, α_k = exp(−10 K N_k/(1 − γ) − ε), γ = 0.99, ε = 0.001, with
    ẑ_k drawn among the rows of a batch with p_n ∝ exp(−‖z_n − e_k‖²), or the nearest of them.

    The published model has a grid of codes for each picture. Here a row has one code of as many
    dimensions as the map, so that its reconstruction is one of K rows; as a map it is compared in
    Li et al. (2024), who do not say how it was set. ``decode`` rounds a point to its nearest code,
    as the fit does; codes are drawn by their shares in ``sample``. The loss is no likelihood:
    ``elbo_`` is NaN, rows have no density, and positions no variance. Each column's mean squared
    residual is its noise variance in ``decode``.

    Attributes:
        relevance_: ``data`` holds the mean squared slope of the decoder at the rows' codes along
            each latent dimension, standardised units, [Q].
        noise_variance_: mean squared residual of the columns that vary, standardised units, [D].
        codes_: positions of the codes on the map, [K, Q].
        code_shares_: share of the rows of the fit at each code, [K].
    """

    key: ClassVar[str] = "cvq_vae"
    title: ClassVar[str] = "Vector-quantised autoencoder (CVQ-VAE)"
    summary: ClassVar[str] = (
        "A map by two neural networks whose points are rounded to codes, like clusters: many rows."
    )
    paper: ClassVar[str] = "Zheng and Vedaldi 2023"
    order: ClassVar[int] = 36
    capabilities: ClassVar[Capabilities] = Capabilities(sampling=True, amortised=True, gpu=True)

    _codebook: Codebook = fitted()
    _noise: Tensor = fitted()
    code_shares_: FloatArray = fitted()

    n_components: Components = None
    n_codes: Codes = 512
    max_iter: MaxIter = 1000
    n_hidden: Hidden = 128
    commitment: Commitment = 0.25
    unused_codes: UnusedCodesChoice = "drawn"
    batch_size: BatchSize = 512
    learning_rate: LearningRate = 0.03

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        networks = AutoencoderNetworks(self.n_hidden, problem, problem.table, problem.Y)
        fit = CodebookObjective(self, problem, networks)
        callback, losses = problem.callback, _Losses(problem.Y.numel())
        if callback is not None:
            reported = callback
            problem = replace(problem, callback=lambda step: reported(losses.of(step)))
        outcome = self._train(fit, problem)
        self._codebook = fit.codebook
        mean = self.embedding_.mean
        self.embedding_ = Posterior(mean, np.zeros_like(mean))
        self._measure_codes(problem.Y)
        history = tuple(losses.of(step) for step in outcome.history)
        return replace(outcome, objective=math.nan, history=history, rise=None)

    def _measure_codes(self, Y: Tensor) -> None:
        """Set the shares of the codes and the squared residuals of the columns of rows [N, D]."""
        codes = self._codebook.nearest(self._to_tensor(self.embedding_.mean))
        self.code_shares_ = to_numpy(self._codebook.shares(codes))
        with torch.no_grad():
            fitted_rows = self._network(self._codebook.vectors)
            total = sum(
                ((some - fitted_rows[at]).square().sum(0) for some, at in _blocks(Y, codes)),
                Y.new_zeros(Y.shape[1]),
            )
        self._noise = (total / len(Y)).clamp_min(NOISE_FLOOR)
        used = int((self.code_shares_ > 0).sum())
        self._note(
            f"The rows use {used} of {self.n_codes} codes, as evenly as {self.perplexity_:.3g} "
            "codes of equal share."
        )

    # ---- inference and decoding ----------------------------------------------------------------

    @property
    def noise_variance_(self) -> FloatArray:
        """Mean squared residual of the columns that vary, standardised units, [D]."""
        return to_numpy(self._noise)

    @property
    def codes_(self) -> FloatArray:
        """Positions of the codes on the map, [K, Q]."""
        return to_numpy(self._codebook.vectors.detach())

    @property
    def perplexity_(self) -> float:
        """exp(−Σ_k p_k log p_k) of the shares p of the codes: as many equally used codes."""
        return float(code_perplexity(torch.as_tensor(self.code_shares_)))

    def nearest_codes(self, X: ArrayLike) -> NDArray[np.intp]:
        """Number of the code of rows, from 0, [N].

        Args:
            X: rows in the data's units, [N, D].

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        z = self.transform(X)
        found = [self._codebook.nearest(self._to_tensor(some)) for some in row_blocks(z)]
        return np.concatenate([np.asarray(part.cpu().numpy(), dtype=np.intp) for part in found])

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        mean, _ = super()._posterior(Y)
        return mean, torch.zeros_like(mean)

    def _rounded(self, X: Tensor) -> Tensor:
        """The nearest code of each point [N, Q], [N, Q]."""
        return self._codebook.vectors.detach()[self._codebook.nearest(X)]

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            mean = self._network(self._rounded(X))
            noise = self._noise.expand_as(mean)
            return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return self._network.metric(self._rounded(X))

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """Codes drawn by their shares, [n, Q]."""
        if label is not None:
            require_labels(self)
        shares = self.code_shares_ / self.code_shares_.sum()
        return self.codes_[rng.choice(len(shares), size=n, p=shares)]

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        own = {
            "codes": self._codebook.vectors.detach().cpu().numpy(),
            "code_shares": self.code_shares_,
            "noise": self._noise.cpu().numpy(),
        }
        return {**arrays, **own}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        vectors = self._to_tensor(arrays["codes"].copy())
        self._codebook = Codebook(len(vectors), vectors, torch.Generator())
        with torch.no_grad():
            self._codebook.vectors.copy_(vectors)
        self.code_shares_ = np.asarray(arrays["code_shares"])
        self._noise = self._to_tensor(arrays["noise"].copy())


class _Losses:
    """Steps with the terms of the loss, per row, in place of those of the objective."""

    def __init__(self, cells: int) -> None:
        """N D, the number of cells of the table."""
        self._scale = -2.0 / cells

    def of(self, step: FitStep) -> FitStep:
        """The step, without a bound."""
        terms = {LOSSES[name]: self._scale * value for name, value in step.terms.items()}
        return replace(step, objective=math.nan, terms=terms)


def _blocks(Y: Tensor, codes: Tensor) -> zip[tuple[Tensor, Tensor]]:
    """Blocks of rows with their codes."""
    return zip(torch.split(Y, 4096), torch.split(codes, 4096), strict=True)
