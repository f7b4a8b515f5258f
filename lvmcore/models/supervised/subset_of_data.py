"""Deep Gaussian processes on a subset of data (SoD), for regression and classification."""

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
from lvmcore.base.settings import BatchSize, LearningRate, MaxIter
from lvmcore.deep.fit_method import DeepGPMethod, DeepGPOptions
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.settings import (
    HiddenDim,
    InducingCountOrAuto,
    KernelOfLayers,
    Layers,
    Samples,
    Validation,
)
from lvmcore.deep.subset_of_data import SubsetDeepGP, subset_deep_gp
from lvmcore.deep.warm_start import (
    fit_single_gp,
    initialise_from_single_gp,
    start_first_layer,
)
from lvmcore.gp.inducing_points import SubsetRule
from lvmcore.parameters import Advanced, Doc

Subset = Annotated[
    SubsetRule,
    Doc(
        "Choice of the subset: by the bound of a single Gaussian process, nearest to k-means "
        "centres, at random (SoD*), by leverage scores, or by a determinantal point process."
    ),
    Advanced(),
]


class _SubsetMethod(DeepGPMethod[SubsetDeepGP]):
    """Fit with inducing variables at a subset of rows, initialised by a single Gaussian process."""

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
            settings=options.initial,
        )
        gp = subset_deep_gp(options.initial, X, Y, rows.to(X.device), likelihood)
        if options.first is None:
            initialise_from_single_gp(gp, single)
        start_first_layer(gp.to(X), options.first)
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
    """Shared settings and fit method, and the subset."""

    method: ClassVar[FitMethod] = _SubsetMethod()

    _function: FittedFunction = fitted()
    _rows_of_fit: NDArray[np.intp] = fitted()

    n_layers: Layers = 2
    n_inducing: InducingCountOrAuto = None
    hidden_dim: HiddenDim = None
    kernel: KernelOfLayers = "rbf"
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
    """Deep Gaussian process regression on a subset of rows (Jain and others 2021).

    The inducing variables of every layer are its functions at M rows S of the table, so no inducing
    inputs are optimised: those of a layer are draws of the previous layer, Z^l = f^l(Z^{l−1}) + ε.
    The paper's last q conditions on the subset's targets in closed form,
    q̂(f_S) ∝ N(y_S | f_S, σ²I) q(f_S). Here it conditions on the targets of all rows, given each
    draw h of their hidden layers:

    q̂(f_S | h) ∝ p(f_S | Z_S^{L−1}) Π_n N(y_n | E[f(h_n) | f_S], σ²),

    the optimum for that draw; one q for all draws would attribute the variation between draws to
    the noise. With S̄ the other rows

    ELBO = E log p(y_S̄ | f^L) + E_q̂ log p(y_S | f_S^L) − Σ_l E KL(q(f_S^l) ‖ p(· | Z_S^{l−1})).

    With mini-batches (more rows than ``batch_size``) the steps use one q for all draws, with
    natural-gradient updates; the final bound and the predictions use the q̂ of each draw from all
    rows. q(f_S^l | Z) = N(C m, C V Cᵀ) depends on Z, while the paper's is fixed. First a single
    Gaussian process is fitted to at most 2000 rows: S is selected greedily by the increase of its
    bound, and the last layer is initialised with its kernel and noise.

    ``kernel`` is that of all layers. One that names columns is that of the first layer, and the
    further layers, whose inputs are hidden units, have the RBF kernel. Hidden layers then have one
    unit more than columns unless ``hidden_dim`` is given, which starts at the exact process with
    that kernel on at most 1000 rows.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs; the last is the
            layer to the target.
        subset_: positions of S among the rows of the fit, [M].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
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
    """Deep Gaussian process classification on a subset of rows.

    As ``SoDDeepGPRegressor``; no q̂ in closed form exists for classes, so the last layer's q is a
    Gaussian with natural-gradient updates from all rows, including the subset.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        subset_: positions of S among the rows of the fit, [M].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "sod_classifier"
    title: ClassVar[str] = "Deep GP on a subset (SoD)"
    summary: ClassVar[str] = "Layers of Gaussian processes to classes on some of the rows."
    paper: ClassVar[str] = "Jain et al. 2021"
    order: ClassVar[int] = 101
