"""The model that a run asks for, of a map or of a target."""

from __future__ import annotations

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.errors import ConfigError
from lvmcore.models import PREDICTORS, AnyModel, estimator_class, model_class
from lvmcore.parameters import check_settings
from lvmcore.runs.job import JobSpec


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
