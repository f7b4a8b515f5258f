"""Deep Gaussian process regression by importance-weighted variational inference (IWVI)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod, Predictor
from lvmcore.base.regressor_classifier import Regressor
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
from lvmcore.deep.settings import InducingCountOrAuto, KernelOfLayers, Layers, Samples, Validation
from lvmcore.deep.warm_start import start_first_layer
from lvmcore.gp.inducing_points import centroids
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.expression import KernelExpression
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.quasi_random import standard_normal
from lvmcore.parameters import Doc, Range

__all__ = ["IWVIDeepGPRegressor"]

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
ImportanceDraws = Annotated[
    int,
    Range(1, 100),
    Doc(
        "Draws of the noise inputs in the bound of a row (K): more come closer to its likelihood "
        "and cost more.",
        "importance draws",
    ),
]


def _noise_names(n_noise: int) -> list[str]:
    """Names of the noise inputs in a kernel."""
    return [f"noise input {number}" for number in range(1, n_noise + 1)]


class _FittedIWVI(FittedDeepGP[NoiseInputDeepGP]):
    """A fitted deep Gaussian process with noise inputs, which predictions average over too."""

    def keep(
        self, draws: int, generator: torch.Generator, rows: tuple[Tensor, Tensor] | None
    ) -> None:
        super().keep(NOISE_DRAWS * draws, generator, rows)

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the columns and of the units of hidden layers; the noise inputs have no column."""
        found = super().relevance
        return {**found, "layer1": found["layer1"][: -self.gp.n_noise]}

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
        E, first, settings = options.given["noise_dim"], options.first, options.initial
        if first is not None and options.hidden_dim is None:
            settings = replace(settings, width=X.shape[1] + E + 1)
        Z = centroids(X, options.n_inducing, generator)
        gp = noise_input_deep_gp(settings, X, Y, Z, likelihood, n_noise=E, generator=generator).to(
            X
        )
        if first is not None:
            noise = standard_normal((len(first.X), E), X, generator)
            start_first_layer(gp, first, torch.cat([first.X, noise], 1))
        start_noise(gp, X, Y)
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
        return noise_input_deep_gp(settings, X, Y, X, likelihood, n_noise=E, generator=generator)

    def with_kernel(
        self, expression: KernelExpression, options: DeepGPOptions, X: Tensor, Y: Tensor
    ) -> DeepGPOptions:
        """See ``DeepGPMethod``; parts without columns act on the noise inputs too."""
        found, E = super().with_kernel(expression, options, X, Y), options.given["noise_dim"]
        assert found.definition is not None
        wide = options.hidden_dim is None or options.hidden_dim > X.shape[1] + E
        definition = found.definition.with_inputs(_noise_names(E))
        return replace(found, definition=definition, first=found.first if wide else None)

    def stored_definition(
        self, model: Predictor, facts: Mapping[str, Any]
    ) -> KernelDefinition | None:
        found = super().stored_definition(model, facts)
        return None if found is None else found.with_inputs(_noise_names(facts["noise_dim"]))

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

    def row_draws(self, options: DeepGPOptions) -> int:
        return options.n_samples * int(options.given["n_importance"])


@estimator_dataclass
class IWVIDeepGPRegressor(Regressor):
    """Importance-weighted deep Gaussian process regression (Salimbeni and others 2019).

    Layers are as in ``DSVIDeepGPRegressor``. The first one has noise inputs w_n ~ N(0, I) besides
    the columns, a latent variable of each row, so that the density of a target can be skewed, have
    several modes, and change its width with the columns. With K draws of w from q(w_n), a Gaussian
    given by a network of (x_n, y_n),

    Σ_n E log (1/K) Σ_k exp(E log N(y_n | f^L(x_n, w⁽ᵏ⁾), σ²)) p(w⁽ᵏ⁾)/q(w⁽ᵏ⁾) − Σ_l KL(q(v^l) ‖
    N(0, I)),

    where the inner expectation is over the last layer, in closed form. The bound rises with K;
    with K = 1 it is the evidence lower bound with −KL(q(w_n) ‖ N(0, I)). A prediction is a mixture
    of normal distributions over draws of w from N(0, I) and of the hidden layers, and does not use
    the network.

    ``kernel`` is that of all layers, as of ``DSVIDeepGPRegressor``. Parts that name columns do not
    act on the noise inputs, which the linear mean of the first layer passes on all the same; those
    without columns act on all inputs.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs, in the first
            that of the columns; the last is the layer to the target.
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "iwvi_regressor"
    title: ClassVar[str] = "Importance-weighted deep GP"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes with an unobserved input of each row: for a number whose "
        "noise is skewed, has several modes or changes with the columns."
    )
    paper: ClassVar[str] = "Salimbeni, Dutordoir, Hensman and Deisenroth 2019"
    order: ClassVar[int] = 122

    method: ClassVar[FitMethod] = _IWVIMethod()

    n_layers: Layers = 1
    n_inducing: InducingCountOrAuto = None
    noise_dim: NoiseDim = 1
    hidden_dim: HiddenDim = None
    kernel: KernelOfLayers = "rbf"
    max_iter: MaxIter = 1000
    n_importance: ImportanceDraws = 5
    n_samples: Samples = 2
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0
