"""Convolutional network as a classifier of pictures, and of other columns by dense layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod, HeldOutRows, Predictor, SupervisedFitProblem
from lvmcore.base.regressor_classifier import Classifier
from lvmcore.base.settings import BatchSize, Dtype, Hidden, LearningRate, MaxIter
from lvmcore.base.table_size import TableSize
from lvmcore.deep.deep_kernel import MOST_FEATURES, feature_network
from lvmcore.deep.settings import Validation
from lvmcore.errors import DataError
from lvmcore.neural.classifier import ClassifierNetwork, ClassifierObjective, class_codes
from lvmcore.neural.convolutional import PixelScaling
from lvmcore.neural.networks import network_arrays, restore_network
from lvmcore.neural.settings import NetworkKindOrAuto, PictureShape
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised, Doc, Range
from lvmcore.preprocessing.picture_shape import (
    AUTO_SHAPE,
    picture_shape,
    pixel_names,
    shape_text,
)
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule
from lvmcore.training.snapshots import thinned

__all__ = ["CNNClassifier"]

#: Measurements without improvement before a stop.
PATIENCE = 5
#: Nats per row below the best batch that count as collapsed: single batches differ by some.
COLLAPSE = 20.0
#: Number of rows above which more steps are recommended.
LONG_TABLE = 5000

Features = Annotated[
    int | None,
    Range(1, 30),
    Doc(
        "Features of the network, of which the classes are a linear function; auto is as many as "
        "columns, 30 at most, and 2 can be drawn.",
        "features",
    ),
]
WeightScale = Annotated[
    float,
    Range(1e-3, 1e3, log=True),
    Doc(
        "How far the network's weights may go from their start: small stays near random features, "
        "large fits the rows more closely.",
        "freedom of the network",
    ),
]


class _FittedClassifierNetwork:
    """A network of classes as the function of a predictor."""

    n_hidden_layers = 1

    def __init__(self, network: ClassifierNetwork) -> None:
        self.network = network

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the columns and of the features."""
        network = self.network
        return {
            "layer1": to_numpy(network.column_relevance),
            "layer2": to_numpy(network.feature_relevance.detach()),
        }

    @property
    def n_parameters(self) -> int:
        """Number of optimised parameters."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """Features at standardised rows, [n, U]."""
        del layer  # there is only one
        return self.network.feature_values(X)

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Only of numbers."""
        raise NotImplementedError  # only of numbers

    def weights(self) -> FloatArray | None:
        """None: nothing is drawn."""
        return None

    def probability(self, X: Tensor) -> Tensor:
        """Probabilities at standardised rows, [n, C]."""
        return self.network.probability(X)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""
        network, features = self.network, self.network.features
        arrays = network_arrays(network, "network.")
        arrays["column_relevance"] = to_numpy(network.column_relevance)
        pixels = getattr(features, "pixels", None)
        return arrays, {
            "features": len(network.last.weight),
            "classes": len(network.last.bias),
            "units": len(features.last.weight),
            "picture": None if pixels is None else list(pixels.shape),
        }


class _ClassifierNetworkMethod:
    """Fit of a network of classes by its log posterior, and its storage."""

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """Convolutions where the columns make a picture; more steps for long tables."""
        found = {"network": Advised("columns")}
        shape = _shape_of(size)
        if shape is not None:
            rows, columns, channels = shape
            colour = " in colour" if channels > 1 else ""
            reason = f"{size.n_columns:,} columns make pictures of {rows} × {columns}{colour}"
            found = {"network": Advised("pictures", reason)}
            named = size.image_shape
            if named is not None and shape != _shape_of(replace(size, image_shape=None)):
                found["picture_shape"] = Advised(shape_text(named), "the rows are such pictures")
        if size.n_rows > LONG_TABLE:
            reason = f"a step sees one batch, and {size.n_rows:,} rows take many"
            found["max_iter"] = Advised(4000, reason)
        return found

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit; the model's function exists from the first step on, for tracking held-out rows."""
        settings, X, codes = model.settings_, problem.X, class_codes(problem.Y)
        if settings["picture_shape"] != AUTO_SHAPE and model.get_params()["network"] is None:
            settings["network"] = "pictures"
        pictures = settings["network"] == "pictures"
        network = _network(
            model,
            X,
            n_features=settings["hidden_dim"] or min(MOST_FEATURES, X.shape[1]),
            n_hidden=settings["n_hidden"],
            n_classes=max(2, problem.Y.shape[1]),
            shape=settings["picture_shape"] if pictures else None,
            generator=problem.generator,
        )
        network.start(codes)
        model._function = _FittedClassifierNetwork(network)
        fit = ClassifierObjective(
            network,
            X,
            codes,
            scale=settings["weight_scale"],
            batch_size=settings["batch_size"],
            generator=problem.generator,
        )
        schedule = Schedule.for_batches(
            settings["max_iter"],
            settings["learning_rate"],
            len(X),
            n_rows=len(X),
            size=fit.batches.size,
        )
        outcome = train(
            fit,
            replace(schedule, collapse=COLLAPSE),
            problem.callback,
            checkpoint=problem.checkpoint,
            held_out=_tracking(model, problem.held_out),
        )
        network.measure_relevance(X[torch.as_tensor(thinned(len(X)))])
        return outcome

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> _FittedClassifierNetwork:
        """The function of a model from the arrays and facts of a file."""
        picture = facts["picture"]
        columns = int((~model._standardiser.constant).sum())
        network = _network(
            model,
            model._to_tensor(np.zeros((1, columns))),
            n_features=int(facts["features"]),
            n_hidden=int(facts["units"]),
            n_classes=int(facts["classes"]),
            shape=None if picture is None else "x".join(map(str, picture)),
            generator=torch.Generator(),
        )
        restore_network(network, arrays, "network.")
        network.column_relevance.copy_(torch.as_tensor(arrays["column_relevance"].copy()))
        return _FittedClassifierNetwork(network)


def _shape_of(size: TableSize) -> tuple[int, int, int] | None:
    """Rows, columns and channels of the pictures of a table; None where it has none."""
    names = () if size.image_shape is None else pixel_names(size.image_shape)
    try:
        return picture_shape(size.n_columns, AUTO_SHAPE, names)
    except DataError:
        return None


def _network(
    model: Predictor,
    X: Tensor,
    *,
    n_features: int,
    n_hidden: int,
    n_classes: int,
    shape: str | None,
    generator: torch.Generator,
) -> ClassifierNetwork:
    """An initial network for rows X [N, H]; of pictures with a shape."""
    pixels = None if shape is None else PixelScaling(model._standardiser, X, shape)
    features = feature_network(X, n_features, n_hidden=n_hidden, generator=generator, pixels=pixels)
    return ClassifierNetwork(features.to(X), n_features, n_classes, X)


def _tracking(model: Predictor, held_out: HeldOutRows | None) -> HeldOutTracking | None:
    """Tracking of the NLPP of held-out rows."""
    if held_out is None:
        return None

    def measure() -> float:
        return float(-model._log_density(held_out.X, held_out.y).mean())

    return HeldOutTracking(measure, PATIENCE if held_out.stops else None)


@estimator_dataclass
class CNNClassifier(Classifier):
    """A convolutional network as a classifier of pictures (LeCun and others 1998).

    P(class c | x) = softmax(a + Wᵀ g(x))_c. For pictures (pixels row by row, their channels side by
    side) g is two convolutions, each followed by 2 × 2 max pooling, and two dense layers; for other
    columns, where nothing is convolved, the sum of a linear function and two hidden layers of
    ``n_hidden`` units. It is the network of ``DeepKernelGPClassifier`` with a linear function of
    the features in place of the Gaussian process. The objective is the log posterior of all weights
    θ under a prior around their initial values θ₀,

    Σ_n log P(y_n | x_n) − ‖θ − θ₀‖²/(2τ²),

    maximised by Adam; early stopping on a tenth of the rows ends the fit. The probabilities are
    those of one set of weights: away from the rows they are too certain more often than those of a
    Gaussian process.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1`` holds α_h = mean of Σ_c (∂f_c/∂x_h)², f = Wᵀ g(x) less its mean over
            the classes, of the columns that vary, [H], over 2000 rows at most; ``layer2``
            α_u = Σ_c w_uc² of the features, likewise, [U].
        n_parameters_: number of optimised weights.
        elbo_: the objective above for all rows, nats; a penalised log likelihood, no lower bound
            of a marginal one.
    """

    key: ClassVar[str] = "cnn_classifier"
    title: ClassVar[str] = "Convolutional network (CNN)"
    summary: ClassVar[str] = (
        "A network of convolutions that tells pictures apart: quick on many rows; a baseline for "
        "deep kernels. For other columns it has dense layers."
    )
    paper: ClassVar[str] = "LeCun, Bottou, Bengio and Haffner 1998"
    order: ClassVar[int] = 150

    method: ClassVar[FitMethod] = _ClassifierNetworkMethod()

    network: NetworkKindOrAuto = None
    picture_shape: PictureShape = AUTO_SHAPE
    hidden_dim: Features = None
    weight_scale: WeightScale = 3.0
    max_iter: MaxIter = 1000
    n_hidden: Hidden = 64
    learning_rate: LearningRate = 0.01
    batch_size: BatchSize = 250
    dtype: Dtype = "float64"
    validation: Validation = 0.1
