"""Q-exponential processes and deep q-exponential processes for regression and classification.

A layer's function values at its inducing inputs are one q-exponential block with the covariance of
the kernel, instead of the normal values of a Gaussian process. Given them, the values at other
inputs are normal with the conditional mean and variance of the process, so a row's prediction does
not depend on the other rows or their number. For q < 2 a block has one random radius for all its
values: large values are penalised less than under a normal prior.

The noise of a number is one block per row, with heavier tails and a sharper peak than normal noise.
The variational q of the values is normal: the bound depends on its mean and covariance only, and
for these the normal distribution has the largest entropy. Bound and tangent: lvmcore/qep/blocks.py.
"""

from __future__ import annotations

from typing import ClassVar

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, LearningRate, MaxIter
from lvmcore.deep.fit_method import InducedMethod
from lvmcore.deep.settings import (
    Exponent,
    HiddenDim,
    InducingCountOrAuto,
    InducingInputs,
    Kernel,
    KernelOfLayers,
    Layers,
    Samples,
    Validation,
)

__all__ = ["DeepQEPClassifier", "DeepQEPRegressor", "QEPClassifier", "QEPRegressor"]


@estimator_dataclass
class _QEP:
    """Settings and fit method of a single layer."""

    method: ClassVar[FitMethod] = InducedMethod()

    q: Exponent = 1.5
    n_inducing: InducingCountOrAuto = None
    kernel: Kernel = "matern32"
    max_iter: MaxIter = 1000
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class _DeepQEP:
    """Settings and fit method of several layers."""

    method: ClassVar[FitMethod] = InducedMethod(each_draw=True, later_kernel="matern32")

    q: Exponent = 1.5
    n_layers: Layers = 2
    n_inducing: InducingCountOrAuto = None
    hidden_dim: HiddenDim = None
    kernel: KernelOfLayers = "matern32"
    max_iter: MaxIter = 1000
    inducing_inputs: InducingInputs = "learned"
    n_samples: Samples = 10
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class QEPRegressor(_QEP, Regressor):
    """Sparse q-exponential process regression (after Chang and others 2025).

    f(Z) is a q-exponential block of covariance K(Z), f(x) given f(Z) is normal, and the noise of
    y_n = f(x_n) + ε_n is one block of variance σ² per row. With q(f(Z)) = N(C m, C V Cᵀ),
    CCᵀ = K(Z), and e_n = ((y_n − E f_n)² + var f_n)/σ²

    ELBO = Σ_n [ψ_1(e_n) − ½ log σ²] + H(N(m, V)) + ψ_M(‖m‖² + tr V),

    which at q = 2 and with the RBF kernel is that of ``SVGPRegressor``. q is updated in closed form
    with each row weighted by the slope of ψ at its e_n, so that outliers have little weight
    (iterative reweighting). The bound may have several maxima for q < 2. A prediction is a mixture
    of normal distributions, 8 for the noise. For q < 2 the noise's density has a pole at 0, which
    duplicate rows with equal targets would exploit; below e = 1e-4 the bound uses the tangent of ψ,
    and the prediction has a resolution of a thousandth of σ.

    Attributes:
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
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
    """Sparse q-exponential process classification (after Chang and others 2025).

    As ``SVGPClassifier``, with one q-exponential block of all function values as in
    ``QEPRegressor``.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "qep_classifier"
    title: ClassVar[str] = "Sparse Q-EP"
    summary: ClassVar[str] = "One q-exponential process a class."
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 141


@estimator_dataclass
class DeepQEPRegressor(_DeepQEP, Regressor):
    """Deep q-exponential process regression (after Chang and others 2025).

    Layers are as in ``DSVIDeepGPRegressor``, with the values of each as one block; noise and last
    layer are as in ``QEPRegressor``:

    ELBO = Σ_n E [ψ_1(e_n) − ½ log σ²] + Σ_l {H(q(v^l)) + ψ(E ‖v^l‖²)}.

    The last layer's q is optimal for each draw of the hidden layers, while the paper has one q for
    all draws; with mini-batches the steps use one q with natural-gradient updates, and the final
    bound and the predictions use that of each draw.

    ``kernel`` is that of all layers. One that names columns is that of the first layer, and the
    further layers, whose inputs are hidden units, have the Matérn-3/2 kernel. Hidden layers then
    have one unit more than columns unless ``hidden_dim`` is given, which starts at the exact
    process with that kernel on at most 1000 rows.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs; the last is the
            layer to the target.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
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
    """Deep q-exponential process classification: see ``DeepQEPRegressor`` and ``QEPClassifier``.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "deep_qep_classifier"
    title: ClassVar[str] = "Deep Q-EP"
    summary: ClassVar[str] = "Layers of q-exponential processes to classes."
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 143
