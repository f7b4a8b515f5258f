"""Deep kernel learning: a sparse Gaussian or q-exponential process on a network's features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.deep.deep_kernel import DeepKernelGP, deep_kernel_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.predictor import LONG_TABLE, DeepGPPredictor
from lvmcore.deep.settings import Exponent, InducingCount, Kernel, Validation
from lvmcore.gp.inducing_points import centroids
from lvmcore.neural.convolutional import PixelScaling
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import (
    Advanced,
    Advised,
    BatchSize,
    Device,
    Doc,
    Hidden,
    LearningRate,
    MaxIter,
    Range,
    Seed,
)
from lvmcore.preprocessing.cell_types import Cells
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


NetworkKind = Annotated[
    Literal["columns", "pictures"],
    Doc(
        "What the network takes the columns for: columns, or the pixels of a square grey picture, "
        "row by row, which it goes over by convolutions.",
        "network of",
    ),
    Advanced(),
]


class _DeepKernel(DeepGPPredictor):
    _gp: DeepKernelGP
    _units: int

    def __init__(
        self,
        *,
        n_inducing: InducingCount = 50,
        hidden_dim: Features = None,
        weight_scale: WeightScale = 0.3,
        max_iter: MaxIter = 1000,
        n_hidden: Hidden = 64,
        network: NetworkKind = "columns",
        learning_rate: LearningRate = 0.02,
        batch_size: BatchSize = 2000,
        validation: Validation = 0.1,
        device: Device = "auto",
        random_state: Seed = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.hidden_dim = hidden_dim
        self.weight_scale = weight_scale
        self.max_iter = max_iter
        self.n_hidden = n_hidden
        self.network = network
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation = validation
        self.device = device
        self.random_state = random_state

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """More inducing points for long tables, and a network that is freer."""
        advised = super().advise(
            n_rows=n_rows, n_columns=n_columns, n_classes=n_classes, cells=cells
        )
        if n_rows <= LONG_TABLE:
            return advised
        freer = Advised(1.0, f"more than {LONG_TABLE} rows hold a freer network back")
        return {**advised, "weight_scale": freer}

    @property
    def _n_hidden_layers(self) -> int:
        return 1

    def _finish(self, X: Tensor, Y: Tensor) -> None:
        del Y
        self._gp.measure_relevance(X[torch.as_tensor(thinned(len(X)))])

    def _model(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        generator: torch.Generator,
    ) -> DeepKernelGP:
        self._units = self.n_hidden
        Z = centroids(X, self.n_inducing, generator)
        return self._at(self._settings(), X, Z, Y.shape[1], likelihood, generator)

    def _blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
    ) -> DeepKernelGP:
        return self._at(settings, X, X, Y.shape[1], likelihood, torch.Generator())

    def _at(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Z: Tensor,
        n_outputs: int,
        likelihood: GaussianNoise | SoftmaxClasses,
        generator: torch.Generator,
    ) -> DeepKernelGP:
        return deep_kernel_gp(
            settings,
            X,
            Z,
            n_outputs,
            likelihood,
            n_hidden=self._units,
            scale=self.weight_scale,
            generator=generator,
            pixels=PixelScaling(self._standardiser, X) if self.network == "pictures" else None,
        )

    def _measure_layers(self) -> None:
        super()._measure_layers()
        self.relevance_ = {
            "layer1": to_numpy(self._gp.column_relevance),
            "layer2": to_numpy(self._gp.last.relevance),
        }

    @torch.no_grad()
    def _hidden_units(self, X: Tensor, layer: int) -> Tensor:
        del layer
        features: Tensor = self._gp.network(X)
        return features

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        features = len(self._gp.last.log_lengthscales)
        return arrays, {**facts, "widths": [features], "units": self._units}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._units = int(facts["units"])
        super()._set_state(arrays, facts)


class _DeepKernelQEP(_DeepKernel):
    def __init__(
        self,
        *,
        q: Exponent = 1.5,
        n_inducing: InducingCount = 50,
        kernel: Kernel = "matern32",
        hidden_dim: Features = None,
        weight_scale: WeightScale = 0.3,
        max_iter: MaxIter = 1000,
        n_hidden: Hidden = 64,
        network: NetworkKind = "columns",
        learning_rate: LearningRate = 0.02,
        batch_size: BatchSize = 2000,
        validation: Validation = 0.1,
        device: Device = "auto",
        random_state: Seed = 0,
    ) -> None:
        super().__init__(
            n_inducing=n_inducing,
            hidden_dim=hidden_dim,
            weight_scale=weight_scale,
            max_iter=max_iter,
            n_hidden=n_hidden,
            network=network,
            learning_rate=learning_rate,
            batch_size=batch_size,
            validation=validation,
            device=device,
            random_state=random_state,
        )
        self.q = q
        self.kernel = kernel


class DeepKernelGPRegressor(_DeepKernel, Regressor):
    """A sparse Gaussian process to a number, on the features of a network (Wilson and others 2016).

    f ~ GP(0, v exp(−½ Σ_d (g_d(x) − g_d(x'))²/ℓ_d²)), y_n = f(x_n) + N(0, σ²). The network g is a
    straight line plus two hidden layers of ``n_hidden`` units, whose part starts at zero; of
    pictures (``network="pictures"``: S × S pixels, row by row) two convolutions and a dense layer,
    which start at random:

    Σ_n E log N(y_n | f(g(x_n)), σ²) − KL(q(v) ‖ N(0, I)) − ‖w − w₀‖²/(2τ²).

    q follows by natural gradients, which for a step over all rows is its optimum, and is that of
    all rows in the end; Adam moves the network's weights w, the inducing inputs, the kernel and the
    noise. Deep kernels overfit (Ober,
    Rasmussen and van der Wilk 2021): the prior around the weights' start w₀ and a tenth of the rows
    set aside, by which the fit stops, hold that back, and do not end it. Intervals are
    too narrow more often than those of ``SVGPRegressor``.

    Attributes:
        relevance_: ``layer1`` holds α_h = mean of Σ_d (∂g_d/∂x_h)²/ℓ_d² of the columns that vary,
            [H], over 2000 rows at most; ``layer2`` α = 1/ℓ² of the features.
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
        elbo_: the objective above for all rows, nats.
    """

    key: ClassVar[str] = "deep_kernel_regressor"
    title: ClassVar[str] = "Deep kernel GP (DKL)"
    summary: ClassVar[str] = (
        "A network's features, then a Gaussian process to a number: for bends that one kernel "
        "misses; may be too sure of itself on short tables."
    )
    paper: ClassVar[str] = "Wilson et al. 2016"
    order: ClassVar[int] = 130


class DeepKernelGPClassifier(_DeepKernel, Classifier):
    """A sparse Gaussian process to classes, on the features of a network.

    As ``DeepKernelGPRegressor``, with one function a class and P(class c | f) = softmax(f)_c; two
    classes have one function and P = Φ(f).

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: see ``DeepKernelGPRegressor``.
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "deep_kernel_classifier"
    title: ClassVar[str] = "Deep kernel GP (DKL)"
    summary: ClassVar[str] = (
        "A network's features, then a Gaussian process a class: for bends that one kernel misses."
    )
    paper: ClassVar[str] = "Wilson et al. 2016"
    order: ClassVar[int] = 131


class DeepKernelQEPRegressor(_DeepKernelQEP, Regressor):
    """A sparse q-exponential process to a number, on a network's features (Chang and others 2025).

    The network, its prior and its guard as of ``DeepKernelGPRegressor``; prior of the function's
    values at the inducing inputs, noise and bound as of ``QEPRegressor``:

    Σ_n [ψ_1(e_n) − ½ log σ²] + H(q(v)) + ψ_M(E ‖v‖²) − ‖w − w₀‖²/(2τ²).

    Attributes:
        relevance_: see ``DeepKernelGPRegressor``.
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
        elbo_: the objective above for all rows, nats.
    """

    key: ClassVar[str] = "deep_kernel_qep_regressor"
    title: ClassVar[str] = "Deep kernel Q-EP"
    summary: ClassVar[str] = (
        "A network's features, then a q-exponential process to a number, which puts up with rows "
        "far off; may be too sure of itself on short tables."
    )
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 144


class DeepKernelQEPClassifier(_DeepKernelQEP, Classifier):
    """A sparse q-exponential process to classes, on a network's features (Chang and others 2025).

    As ``DeepKernelGPClassifier``, the functions' values one q-exponential block.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: see ``DeepKernelQEPRegressor``.
        n_parameters_: numbers that the optimiser moves; q of the last layer follows the rows.
    """

    key: ClassVar[str] = "deep_kernel_qep_classifier"
    title: ClassVar[str] = "Deep kernel Q-EP"
    summary: ClassVar[str] = "A network's features, then a q-exponential process a class."
    paper: ClassVar[str] = "Chang et al. 2025"
    order: ClassVar[int] = 145
