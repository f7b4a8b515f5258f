"""Sparse variational Gaussian processes (SVGP), regression and classification."""

from __future__ import annotations

from typing import ClassVar

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, LearningRate, MaxIter
from lvmcore.deep.fit_method import InducedMethod
from lvmcore.deep.settings import (
    InducingCount,
    Validation,
)


@estimator_dataclass
class _SVGP:
    """Shared settings and fit method."""

    method: ClassVar[FitMethod] = InducedMethod()

    n_inducing: InducingCount = 50
    max_iter: MaxIter = 1000
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class SVGPRegressor(_SVGP, Regressor):
    """Sparse Gaussian process regression (Hensman and others 2013).

    f ~ GP(0, v exp(−½ Σ_h (x_h − x'_h)²/ℓ_h²)), y_n = f(x_n) + N(0, σ²), q(f(Z)) = N(C m, C V Cᵀ)
    at M inducing inputs Z, CCᵀ = K(Z):

    ELBO = Σ_n E log N(y_n | f(x_n), σ²) − KL(N(m, V) ‖ N(0, I)).

    q is updated by natural gradients, which for a step over all rows gives its optimum, and is
    optimal for all rows at the end; Adam optimises Z, the kernel and the noise.

    Attributes:
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "svgp_regressor"
    title: ClassVar[str] = "Sparse GP (SVGP)"
    summary: ClassVar[str] = "One Gaussian process to a number: quick and smooth."
    paper: ClassVar[str] = "Hensman et al. 2013"
    order: ClassVar[int] = 110


@estimator_dataclass
class SVGPClassifier(_SVGP, Classifier):
    """Sparse Gaussian process classification (Hensman and others 2015).

    As ``SVGPRegressor``, with one function per class and P(class c | f) = softmax(f)_c; two classes
    have one function and P = Φ(f). q is updated by natural gradients with the likelihood's slope
    and curvature, and is optimal for all rows at the end.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "svgp_classifier"
    title: ClassVar[str] = "Sparse GP (SVGP)"
    summary: ClassVar[str] = "One Gaussian process a class: quick and smooth."
    paper: ClassVar[str] = "Hensman et al. 2015"
    order: ClassVar[int] = 111
