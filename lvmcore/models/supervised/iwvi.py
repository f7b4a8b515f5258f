"""Deep Gaussian processes with noise inputs by importance-weighted variational inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, LearningRate, MaxIter
from lvmcore.deep.fit_method import DeepGPMethod, DeepGPOptions
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.importance_weighted.noise_input_gp import (
    NoiseInputDeepGP,
    noise_input_deep_gp,
    start_noise,
)
from lvmcore.deep.importance_weighted.objective import ImportanceWeightedObjective
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.settings import InducingCountOrAuto, Layers, Validation
from lvmcore.gp.inducing_points import centroids
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range

__all__ = ["IWVIDeepGPClassifier", "IWVIDeepGPRegressor"]

# Draws in a prediction for each draw of the functions in other models: the density of a row is a
# mixture over the noise inputs too.
NOISE_DRAWS = 5

NoiseDim = Annotated[
    int,
    Range(1, 10),
    Doc(
        "Unobserved inputs of each row: they give a prediction skew, several modes and a width "
        "that changes with the columns.",
        "noise inputs",
    ),
]
HiddenDim = Annotated[
    int | None,
    Range(1, 30),
    Doc(
        "Units in each hidden layer; auto is the number of columns and noise inputs, 30 at most.",
        "units a layer",
    ),
]
StationaryKernel = Annotated[
    Literal["rbf", "matern52", "matern32"],
    Doc("Kernel of all layers: rbf is smooth, matern32 has sharp bends.", "kernel"),
]
ImportanceDraws = Annotated[
    int,
    Range(1, 100),
    Doc(
        "Draws of the noise inputs in the bound of a row (K): more come closer to its likelihood "
        "and cost more.",
        "importance draws",
    ),
]
FunctionDraws = Annotated[
    int,
    Range(1, 100),
    Doc("Draws of the functions averaged in a step.", "draws a step"),
    Advanced(),
]


class _FittedIWVI(FittedDeepGP[NoiseInputDeepGP]):
    """A fitted deep Gaussian process with noise inputs."""

    def keep(
        self, draws: int, generator: torch.Generator, rows: tuple[Tensor, Tensor] | None
    ) -> None:
        super().keep(NOISE_DRAWS * draws, generator, rows)

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the columns and of the units of hidden layers; the noise inputs have no column."""
        found = super().relevance
        return {**found, "layer1": found["layer1"][: -self.gp.n_noise]}

    @property
    def noise_relevance(self) -> FloatArray:
        """α of the noise inputs in the first layer, [E]."""
        return super().relevance["layer1"][-self.gp.n_noise :]

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super().state()
        return arrays, {**facts, "noise_dim": self.gp.n_noise}


class _IWVIMethod(DeepGPMethod[NoiseInputDeepGP]):
    """Fit by the importance-weighted bound."""

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> NoiseInputDeepGP:
        gp = noise_input_deep_gp(
            options.initial,
            X,
            Y,
            centroids(X, options.n_inducing, generator),
            likelihood,
            n_noise=options.given["noise_dim"],
            generator=generator,
        )
        start_noise(gp.to(X), X, Y, generator)
        return gp

    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> NoiseInputDeepGP:
        del options
        generator = torch.Generator().manual_seed(0)
        E = int(facts["noise_dim"])
        return noise_input_deep_gp(
            settings, X, Y, X, likelihood, n_noise=E, generator=generator
        )

    def function(self, gp: NoiseInputDeepGP) -> FittedDeepGP[NoiseInputDeepGP]:
        return _FittedIWVI(gp)

    def objective(
        self,
        gp: NoiseInputDeepGP,
        X: Tensor,
        Y: Tensor,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> ImportanceWeightedObjective:
        return ImportanceWeightedObjective(
            gp,
            X,
            Y,
            n_importance=options.given["n_importance"],
            n_samples=options.n_samples,
            batch_size=options.batch_size,
            generator=generator,
        )


@estimator_dataclass
class _IWVI:
    """Shared settings and fit method."""

    method: ClassVar[FitMethod] = _IWVIMethod()

    n_layers: Layers = 1
    n_inducing: InducingCountOrAuto = None
    noise_dim: NoiseDim = 1
    hidden_dim: HiddenDim = None
    kernel: StationaryKernel = "rbf"
    max_iter: MaxIter = 1000
    n_importance: ImportanceDraws = 5
    n_samples: FunctionDraws = 2
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0


@estimator_dataclass
class IWVIDeepGPRegressor(_IWVI, Regressor):
    """Importance-weighted deep GP regression (Salimbeni et al. 2019)."""

    key: ClassVar[str] = "iwvi_regressor"
    title: ClassVar[str] = "Importance-weighted deep GP"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes with an unobserved input of each row: for a target whose "
        "spread changes, is skewed or has several modes."
    )
    paper: ClassVar[str] = "Salimbeni et al. 2019"
    order: ClassVar[int] = 122


@estimator_dataclass
class IWVIDeepGPClassifier(_IWVI, Classifier):
    """Importance-weighted deep GP classification."""

    key: ClassVar[str] = "iwvi_classifier"
    title: ClassVar[str] = "Importance-weighted deep GP"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes to classes, with an unobserved input of each row."
    )
    paper: ClassVar[str] = "Salimbeni et al. 2019"
    order: ClassVar[int] = 123
