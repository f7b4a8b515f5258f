"""Deep kernel learning: a sparse Gaussian or q-exponential process on a network's features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod, Predictor
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import (
    BatchSize,
    Hidden,
    LearningRate,
    MaxIter,
)
from lvmcore.base.table_size import TableSize
from lvmcore.deep.deep_kernel import DeepKernelGP, deep_kernel_gp
from lvmcore.deep.fit_method import LONG_TABLE, DeepGPMethod, DeepGPOptions
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings, principal_axes
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.settings import Exponent, InducingCountOrAuto, KernelOfFeatures, Validation
from lvmcore.deep.warm_start import fitted_start
from lvmcore.gp.inducing_points import centroids
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.expression import KernelExpression
from lvmcore.neural.convolutional import PixelScaling
from lvmcore.neural.settings import NetworkKind, PictureShape
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised, Doc, Range
from lvmcore.preprocessing.picture_shape import AUTO_SHAPE, picture_shape, shape_text
from lvmcore.training.snapshots import thinned

__all__ = [
    "DeepKernelGPClassifier",
    "DeepKernelGPRegressor",
    "DeepKernelQEPClassifier",
    "DeepKernelQEPRegressor",
]

Features = Annotated[
    int | None,
    Range(1, 30),
    Doc(
        "Features that the network hands to the Gaussian process; auto is as many as columns, 30 "
        "at most, and 2 can be drawn.",
        "features",
    ),
]
WeightScale = Annotated[
    float,
    Range(1e-3, 1e3, log=True),
    Doc(
        "How far the network's weights may go from their start, a straight line: small stays near "
        "a single Gaussian process, large bends the features and overfits.",
        "freedom of the network",
    ),
]


class _FittedDeepKernel(FittedDeepGP[DeepKernelGP]):
    """A fitted network of features with the Gaussian or q-exponential process on them."""

    @property
    def relevance(self) -> dict[str, FloatArray]:
        return {
            "layer1": to_numpy(self.gp.column_relevance),
            "layer2": to_numpy(self.gp.last.relevance),
        }

    @property
    def n_hidden_layers(self) -> int:
        return 1

    @torch.no_grad()
    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        del layer  # there is only one
        features: Tensor = self.gp.network(X)
        return features

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super().state()
        own = {
            "widths": [self.gp.last.n_inputs],
            "units": len(self.gp.network.last.weight),
        }
        pixels = getattr(self.gp.network, "pixels", None)
        if pixels is not None:
            own["picture"] = list(pixels.shape)
        return arrays, {**facts, **own}


class _DeepKernelMethod(DeepGPMethod[DeepKernelGP]):
    """Fit of a network, with a prior around its initial weights, and a process on its features."""

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """For long tables more inducing points and a wider prior of the network."""
        found = super().advise(size)
        if size.n_rows <= LONG_TABLE:
            return found
        freer = Advised(1.0, f"with more than {LONG_TABLE} rows a freer network overfits less")
        return {**found, "weight_scale": freer}

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DeepKernelGP:
        Z = centroids(X, options.n_inducing, generator)
        return _network_gp(
            options,
            X,
            Z,
            Y.shape[1],
            likelihood,
            settings=options.initial,
            n_hidden=options.given["n_hidden"],
            shape=options.given["picture_shape"],
            generator=generator,
        )

    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> DeepKernelGP:
        return _network_gp(
            options,
            X,
            X,
            Y.shape[1],
            likelihood,
            settings=settings,
            n_hidden=int(facts["units"]),
            shape=_stored_shape(options, facts),
            generator=torch.Generator(),
        )

    def with_kernel(
        self, expression: KernelExpression, options: DeepGPOptions, X: Tensor, Y: Tensor
    ) -> DeepGPOptions:
        """The kernel over the features, at the start for the network's initial linear map."""
        width = options.hidden_dim or min(30, X.shape[1])
        definition = KernelDefinition.of_units(expression, width)
        if options.given["network"] == "columns":
            features = X @ principal_axes(X, width)
            definition, _ = fitted_start(definition, features, Y, options.max_iter)
        return replace(options, definition=definition)

    def stored_definition(
        self, model: Predictor, facts: Mapping[str, Any]
    ) -> KernelDefinition | None:
        """See ``DeepGPMethod``."""
        del model
        if "expression" not in facts:
            return None
        return KernelDefinition.of_units(read_kernel(facts["expression"]), facts["widths"][0])

    def function(self, gp: DeepKernelGP) -> FittedDeepGP[DeepKernelGP]:
        return _FittedDeepKernel(gp)

    def finish(self, gp: DeepKernelGP, X: Tensor, Y: Tensor) -> None:
        del Y
        gp.measure_relevance(X[torch.as_tensor(thinned(len(X)))])


def _network_gp(
    options: DeepGPOptions,
    X: Tensor,
    Z: Tensor,
    n_outputs: int,
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    settings: DeepGPSettings,
    n_hidden: int,
    shape: str,
    generator: torch.Generator,
) -> DeepKernelGP:
    pictures = options.given["network"] == "pictures"
    return deep_kernel_gp(
        settings,
        X,
        Z,
        n_outputs,
        likelihood,
        n_hidden=n_hidden,
        scale=options.given["weight_scale"],
        generator=generator,
        pixels=PixelScaling(options.standardiser, X, shape) if pictures else None,
    )


def _stored_shape(options: DeepGPOptions, facts: Mapping[str, Any]) -> str:
    """The shape of the pictures of a file; files of earlier versions have that of the settings."""
    given = str(options.given["picture_shape"])
    if options.given["network"] != "pictures":
        return given
    if "picture" in facts:
        rows, columns, channels = facts["picture"]
        return shape_text((rows, columns, channels))
    return shape_text(picture_shape(len(options.standardiser.mean), given))


@estimator_dataclass
class _DeepKernel:
    """Settings and fit method of a Gaussian process on features."""

    method: ClassVar[FitMethod] = _DeepKernelMethod()

    n_inducing: InducingCountOrAuto = None
    kernel: KernelOfFeatures = "rbf"
    hidden_dim: Features = None
    weight_scale: WeightScale = 0.3
    max_iter: MaxIter = 1000
    n_hidden: Hidden = 64
    network: NetworkKind = "columns"
    picture_shape: PictureShape = AUTO_SHAPE
    learning_rate: LearningRate = 0.02
    batch_size: BatchSize = 2000
    validation: Validation = 0.1


@estimator_dataclass
class _DeepKernelQEP:
    """Settings and fit method of a q-exponential process on features."""

    method: ClassVar[FitMethod] = _DeepKernelMethod()

    q: Exponent = 1.5
    n_inducing: InducingCountOrAuto = None
    kernel: KernelOfFeatures = "matern32"
    hidden_dim: Features = None
    weight_scale: WeightScale = 0.3
    max_iter: MaxIter = 1000
    n_hidden: Hidden = 64
    network: NetworkKind = "columns"
    picture_shape: PictureShape = AUTO_SHAPE
    learning_rate: LearningRate = 0.02
    batch_size: BatchSize = 2000
    validation: Validation = 0.1


@estimator_dataclass
class DeepKernelGPRegressor(_DeepKernel, Regressor):
    """Sparse Gaussian process regression on the features of a network (Wilson and others 2016).

    f ~ GP(0, v exp(−½ Σ_d (g_d(x) − g_d(x'))²/ℓ_d²)), y_n = f(x_n) + N(0, σ²). The network g is the
    sum of a linear function and two hidden layers of ``n_hidden`` units, initially with output 0;
    for pictures (``network="pictures"``: pixels row by row, their channels side by side) it is two
    convolutions and a dense layer with random initial weights. The objective is

    Σ_n E log N(y_n | f(g(x_n)), σ²) − KL(q(v) ‖ N(0, I)) − ‖w − w₀‖²/(2τ²).

    q is updated by natural gradients, which for a step over all rows gives its optimum, and is
    optimal for all rows at the end; Adam optimises the network's weights w, the inducing inputs,
    the kernel and the noise. Deep kernels overfit (Ober, Rasmussen and van der Wilk 2021): the
    prior around the initial weights w₀ and early stopping on a tenth of the rows reduce this
    without removing it. Intervals are too narrow more often than those of ``SVGPRegressor``.

    Attributes:
        relevance_: ``layer1`` holds α_h = mean of Σ_d (∂g_d/∂x_h)²/ℓ_d² of the columns that vary,
            [H], over 2000 rows at most; ``layer2`` α = 1/ℓ² of the features.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
        elbo_: the objective above for all rows, nats.
    """

    key: ClassVar[str] = "deep_kernel_regressor"
    title: ClassVar[str] = "Deep kernel GP (DKL)"
    summary: ClassVar[str] = (
        "A network's features, then a Gaussian process to a number: for bends that one kernel "
        "misses; intervals may be too narrow on short tables."
    )
    paper: ClassVar[str] = "Wilson et al. 2016"
    order: ClassVar[int] = 130


@estimator_dataclass
class DeepKernelGPClassifier(_DeepKernel, Classifier):
    """Sparse Gaussian process classification on the features of a network.

    As ``DeepKernelGPRegressor``, with one function per class and P(class c | f) = softmax(f)_c; two
    classes have one function and P = Φ(f).

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: see ``DeepKernelGPRegressor``.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "deep_kernel_classifier"
    title: ClassVar[str] = "Deep kernel GP (DKL)"
    summary: ClassVar[str] = (
        "A network's features, then a Gaussian process a class: for bends that one kernel misses."
    )
    paper: ClassVar[str] = "Wilson et al. 2016"
    order: ClassVar[int] = 131


@estimator_dataclass
class DeepKernelQEPRegressor(_DeepKernelQEP, Regressor):
    """Sparse q-exponential process regression on a network's features (Chang and others 2025).

    Network, prior and early stopping are as in ``DeepKernelGPRegressor``; the prior of the
    function's values at the inducing inputs, noise and bound are as in ``QEPRegressor``:

    Σ_n [ψ_1(e_n) − ½ log σ²] + H(q(v)) + ψ_M(E ‖v‖²) − ‖w − w₀‖²/(2τ²).

    Attributes:
        relevance_: see ``DeepKernelGPRegressor``.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
        elbo_: the objective above for all rows, nats.
    """

    key: ClassVar[str] = "deep_kernel_qep_regressor"
    title: ClassVar[str] = "Deep kernel Q-EP"
    summary: ClassVar[str] = (
        "A network's features, then a q-exponential process to a number, robust to outliers; "
        "intervals may be too narrow on short tables."
    )
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 144


@estimator_dataclass
class DeepKernelQEPClassifier(_DeepKernelQEP, Classifier):
    """Sparse q-exponential process classification on a network's features (Chang and others 2025).

    As ``DeepKernelGPClassifier``, with one q-exponential block of all function values.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: see ``DeepKernelQEPRegressor``.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "deep_kernel_qep_classifier"
    title: ClassVar[str] = "Deep kernel Q-EP"
    summary: ClassVar[str] = "A network's features, then a q-exponential process a class."
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 145
