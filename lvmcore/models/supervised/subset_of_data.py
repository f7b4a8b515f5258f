"""Gaussian processes and deep ones to a target, numbers or classes: SVGP, DSVI and SoD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.predictor import FitMethod, FittedFunction, Predictor
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.deep.fit_method import DeepGPMethod, DeepGPOptions
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.settings import (
    HiddenDim,
    InducingCount,
    Layers,
    Samples,
    Validation,
)
from lvmcore.deep.subset_of_data import SubsetDeepGP, subset_deep_gp
from lvmcore.deep.warm_start import fit_single_gp, initialise_from_single_gp
from lvmcore.gp.inducing_points import SubsetRule
from lvmcore.parameters import Advanced, BatchSize, Doc, LearningRate, MaxIter

Subset = Annotated[
    SubsetRule,
    Doc(
        "Rows that stand for all: those that the bound of a single Gaussian process asks for, "
        "nearest to k-means centres, drawn at random (SoD*), or drawn by leverage."
    ),
    Advanced(),
]


class _SubsetMethod(DeepGPMethod[SubsetDeepGP]):
    """Inducing variables at some of the rows, and a start as a single Gaussian process."""

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> SubsetDeepGP:
        rows, single = fit_single_gp(
            X,
            Y,
            options.n_inducing,
            options.given["subset"],
            generator,
            steps=options.max_iter,
            learning_rate=options.learning_rate,
        )
        gp = subset_deep_gp(options.initial, X, Y, rows.to(X.device), likelihood)
        initialise_from_single_gp(gp, single)
        return gp

    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> SubsetDeepGP:
        del options, facts
        rows = torch.arange(len(X), device=X.device)
        return subset_deep_gp(settings, X, Y, rows, likelihood)

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedDeepGP[SubsetDeepGP]:
        model._rows_of_fit = np.asarray(arrays["rows_of_fit"])
        return super().restore(model, arrays, facts)


@estimator_dataclass
class _SoD:
    """Settings and method of both, and which rows stand for all."""

    method: ClassVar[FitMethod] = _SubsetMethod()

    _function: FittedFunction = fitted()
    _rows_of_fit: NDArray[np.intp] = fitted()

    n_layers: Layers = 2
    n_inducing: InducingCount = 50
    hidden_dim: HiddenDim = None
    max_iter: MaxIter = 1000
    subset: Subset = "bound"
    n_samples: Samples = 10
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0

    @property
    def subset_(self) -> NDArray[np.int64]:
        """Positions of the subset among the rows that ``fit`` was given, [M]."""
        check_is_fitted(self)
        assert isinstance(self._function, FittedDeepGP)
        return np.asarray(self._rows_of_fit[self._function.gp.subset.cpu().numpy()])

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = self._function.state()
        return {**arrays, "rows_of_fit": self._rows_of_fit}, facts


@estimator_dataclass
class SoDDeepGPRegressor(_SoD, Regressor):
    """A deep Gaussian process to a number on a subset of its rows (Jain and others 2021).

    The inducing variables of every layer are its functions at M rows S of the table, so no inducing
    input is trained: those of a layer are what the layer before drew, Z^l = f^l(Z^{l−1}) + ε. The
    paper's last q takes the subset's own targets in closed form, q̂(f_S) ∝ N(y_S | f_S, σ²I) q(f_S).
    Here it takes those of all rows, of each draw h of what the hidden layers make of them:

    q̂(f_S | h) ∝ p(f_S | Z_S^{L−1}) Π_n N(y_n | E[f(h_n) | f_S], σ²),

    the optimum for that draw, where one q for all draws would have to call noise what differs
    between them. With S̄ the other rows

    ELBO = E log p(y_S̄ | f^L) + E_q̂ log p(y_S | f_S^L) − Σ_l E KL(q(f_S^l) ‖ p(· | Z_S^{l−1})).

    In batches (more rows than ``batch_size``) the steps go by one q for all draws, which follows
    the rows; the final bound and the predictions take the q̂ of each draw from all rows.
    q(f_S^l | Z) = N(C m, C V Cᵀ) follows Z, where the paper keeps it fixed. A single Gaussian
    process is fitted first, to 2000 rows at most: S are the rows that its bound gains most by, one
    after the other, and the last layer begins with its kernel and noise.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs, the last of them
            the layer to the target.
        subset_: positions of S among the rows of the fit, [M].
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "sod_regressor"
    title: ClassVar[str] = "Deep GP on a subset (SoD)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes on some of the rows: often better than one, in minutes."
    )
    paper: ClassVar[str] = "Jain et al. 2021"
    order: ClassVar[int] = 100


@estimator_dataclass
class SoDDeepGPClassifier(_SoD, Classifier):
    """A deep Gaussian process to classes on a subset of its rows.

    As ``SoDDeepGPRegressor``; no q̂ in closed form exists for classes, so the last layer's q is a
    Gaussian that follows the subset's rows like all others.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        subset_: positions of S among the rows of the fit, [M].
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "sod_classifier"
    title: ClassVar[str] = "Deep GP on a subset (SoD)"
    summary: ClassVar[str] = "Layers of Gaussian processes to classes on some of the rows."
    paper: ClassVar[str] = "Jain et al. 2021"
    order: ClassVar[int] = 101
