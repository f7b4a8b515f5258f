"""Deep Gaussian processes by doubly stochastic variational inference (DSVI)."""

from __future__ import annotations

from typing import ClassVar

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, LearningRate, MaxIter
from lvmcore.deep.fit_method import InducedMethod
from lvmcore.deep.settings import (
    HiddenDim,
    InducingCountOrAuto,
    InducingInputs,
    KernelOfLayers,
    Layers,
    Samples,
    Validation,
)


@estimator_dataclass
class _DSVI:
    """Shared settings and fit method."""

    method: ClassVar[FitMethod] = InducedMethod()

    n_layers: Layers = 2
    n_inducing: InducingCountOrAuto = None
    hidden_dim: HiddenDim = None
    kernel: KernelOfLayers = "rbf"
    max_iter: MaxIter = 1000
    inducing_inputs: InducingInputs = "learned"
    n_samples: Samples = 10
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class DSVIDeepGPRegressor(_DSVI, Regressor):
    """Deep Gaussian process regression by doubly stochastic variational inference.

    Layers of Gaussian processes, each with its own inducing inputs and a linear mean; a sample
    draws the values of all layers (Salimbeni and Deisenroth 2017):

    ELBO = Σ_n E log N(y_n | f^L(x_n), σ²) − Σ_l KL(q(v^l) ‖ N(0, I)).

    ``kernel`` is that of all layers. One that names columns is that of the first layer, and the
    further layers, whose inputs are hidden units, have the RBF kernel. Hidden layers then have one
    unit more than columns unless ``hidden_dim`` is given, which starts at the exact process with
    that kernel on at most 1000 rows.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs; the last is the
            layer to the target.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "dsvi_regressor"
    title: ClassVar[str] = "Deep GP (DSVI)"
    summary: ClassVar[str] = "Layers of Gaussian processes to a number, inducing inputs learned."
    paper: ClassVar[str] = "Salimbeni and Deisenroth 2017"
    order: ClassVar[int] = 120


@estimator_dataclass
class DSVIDeepGPClassifier(_DSVI, Classifier):
    """Deep Gaussian process classification: see ``DSVIDeepGPRegressor`` and ``SVGPClassifier``.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "dsvi_classifier"
    title: ClassVar[str] = "Deep GP (DSVI)"
    summary: ClassVar[str] = "Layers of Gaussian processes to classes, inducing inputs learned."
    paper: ClassVar[str] = "Salimbeni and Deisenroth 2017"
    order: ClassVar[int] = 121
