"""Q-exponential processes and deep ones to a target, numbers or classes.

A layer's function values at its inducing inputs are one q-exponential block with the covariance
that the kernel says, in place of a Gaussian process's normal values; given them, a function's value
elsewhere is normal, with the process's conditional mean and variance, so a row's prediction does
not depend on the rows beside it, nor on how many there are. Below q = 2 a block has one radius for
all its values, which the rows can stretch: large values cost less than under a normal prior.

The noise of a number is a block of each row's own, so it has heavier tails and a sharper peak than
a normal one. q of the values stays normal: the bound knows its mean and covariance alone, and with
these a normal one has the greatest entropy. `qexponential_blocks` has the bound and its tangent.
"""

from __future__ import annotations

from typing import ClassVar

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.deep.fit_method import InducedMethod
from lvmcore.deep.settings import (
    Exponent,
    HiddenDim,
    InducingCount,
    InducingInputs,
    Kernel,
    Layers,
    Samples,
    Validation,
)
from lvmcore.parameters import BatchSize, LearningRate, MaxIter

__all__ = ["DeepQEPClassifier", "DeepQEPRegressor", "QEPClassifier", "QEPRegressor"]


@estimator_dataclass
class _QEP:
    """Settings and method of one layer."""

    method: ClassVar[FitMethod] = InducedMethod()

    q: Exponent = 1.5
    n_inducing: InducingCount = 50
    kernel: Kernel = "matern32"
    max_iter: MaxIter = 1000
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class _DeepQEP:
    """Settings and method of several layers."""

    method: ClassVar[FitMethod] = InducedMethod(each_draw=True)

    q: Exponent = 1.5
    n_layers: Layers = 2
    n_inducing: InducingCount = 50
    hidden_dim: HiddenDim = None
    kernel: Kernel = "matern32"
    max_iter: MaxIter = 1000
    inducing_inputs: InducingInputs = "learned"
    n_samples: Samples = 10
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class QEPRegressor(_QEP, Regressor):
    """A sparse q-exponential process to a number (after Chang and others 2025).

    f(Z) a q-exponential block of covariance K(Z), f(x) given f(Z) normal, y_n = f(x_n) + noise, a
    block of each row's own and variance σ². With q(f(Z)) = N(C m, C V Cᵀ), CCᵀ = K(Z), and
    e_n = ((y_n − E f_n)² + var f_n)/σ²

    ELBO = Σ_n [ψ_1(e_n) − ½ log σ²] + H(N(m, V)) + ψ_M(‖m‖² + tr V),

    which at q = 2 and with the RBF kernel is that of ``SVGPRegressor``. q takes the rows in closed
    form, each counted by the slope of ψ at its e_n, so that rows far off count little (iterative
    reweighting). The bound may have several tops for q < 2. A prediction is a mixture of normal
    distributions, 8 for the noise. Below q = 2 the noise's density has a pole at 0, which equal
    targets of equal rows would run up; below e = 1e-4 the bound takes the tangent of ψ, and the
    prediction resolves a thousandth of σ.

    Attributes:
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "qep_regressor"
    title: ClassVar[str] = "Sparse Q-EP"
    summary: ClassVar[str] = (
        "One q-exponential process to a number: its noise has heavy tails, so that rows far off "
        "count little."
    )
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 140


@estimator_dataclass
class QEPClassifier(_QEP, Classifier):
    """A sparse q-exponential process to classes (after Chang and others 2025).

    As ``SVGPClassifier``, the functions' values one q-exponential block: see ``QEPRegressor``.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "qep_classifier"
    title: ClassVar[str] = "Sparse Q-EP"
    summary: ClassVar[str] = "One q-exponential process a class."
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 141


@estimator_dataclass
class DeepQEPRegressor(_DeepQEP, Regressor):
    """A deep q-exponential process to a number (after Chang and others 2025).

    Layers as of ``DSVIDeepGPRegressor``, the values of each one block; noise and last layer as of
    ``QEPRegressor``:

    ELBO = Σ_n E [ψ_1(e_n) − ½ log σ²] + Σ_l {H(q(v^l)) + ψ(E ‖v^l‖²)}.

    The last q is the best for each draw of the hidden layers, where that paper's is one for all
    draws; by batches the steps go by one that follows the rows, and the final bound and the
    predictions take that of each draw.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs, the last of them
            the layer to the target.
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "deep_qep_regressor"
    title: ClassVar[str] = "Deep Q-EP"
    summary: ClassVar[str] = (
        "Layers of q-exponential processes to a number: rows far off count little; takes minutes."
    )
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 142


@estimator_dataclass
class DeepQEPClassifier(_DeepQEP, Classifier):
    """A deep q-exponential process to classes: see ``DeepQEPRegressor`` and ``QEPClassifier``.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "deep_qep_classifier"
    title: ClassVar[str] = "Deep Q-EP"
    summary: ClassVar[str] = "Layers of q-exponential processes to classes."
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 143
