"""The model that a run asks for, of a map or of a target."""

from __future__ import annotations

from lvmcore.base import LatentVariableModel
from lvmcore.errors import ConfigError
from lvmcore.models import MODELS, PREDICTORS
from lvmcore.parameters import check_settings
from lvmcore.predictor import Predictor
from lvmcore.runs.spec import JobSpec

__all__ = [
    "AnyModel",
    "estimator_class",
    "make_estimator",
    "make_model",
    "make_predictor",
    "model_class",
]

#: A model of either task.
AnyModel = LatentVariableModel | Predictor


def model_class(key: str) -> type[LatentVariableModel]:
    """The model of a map with this key.

    Raises:
        ConfigError: there is none, or it predicts a target.
    """
    cls = estimator_class(key)
    if issubclass(cls, Predictor):
        raise ConfigError(
            f"The model {key!r} predicts a target and has no map: expected one of "
            f"{', '.join(MODELS)}."
        )
    return cls


def estimator_class(key: str) -> type[AnyModel]:
    """The model with this key, of a map or of a target.

    Raises:
        ConfigError: there is none.
    """
    known = {**MODELS, **PREDICTORS}
    if key not in known:
        raise ConfigError(f"There is no model {key!r}. There are: {', '.join(known)}.")
    return known[key]


def make_model(spec: JobSpec) -> LatentVariableModel:
    """The unfitted model of a map that a run asks for.

    Raises:
        ConfigError: the model or a setting of it is unknown, or a value is not allowed; or the
            model predicts a target.
    """
    cls = model_class(spec.model)
    if spec.target:
        raise ConfigError(f"{cls.title} draws a map and predicts no target {spec.target!r}.")
    return cls(**check_settings(cls, spec.parameters))


def make_predictor(spec: JobSpec) -> Predictor:
    """The unfitted model of a target that a run asks for.

    Raises:
        ConfigError: as ``make_model``, or the model draws a map, or no target is named.
    """
    cls = estimator_class(spec.model)
    if not issubclass(cls, Predictor):
        raise ConfigError(
            f"{cls.title} draws a map and predicts no target: expected one of "
            f"{', '.join(PREDICTORS)}."
        )
    if not spec.target:
        raise ConfigError(f"{cls.title} predicts a target: name the column.")
    return cls(**check_settings(cls, spec.parameters))


def make_estimator(spec: JobSpec) -> AnyModel:
    """The unfitted model that a run asks for, of either task.

    Raises:
        ConfigError: as ``make_model`` and ``make_predictor``.
    """
    return make_predictor(spec) if spec.model in PREDICTORS else make_model(spec)
