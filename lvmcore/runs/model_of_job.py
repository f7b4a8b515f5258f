"""The model that a run asks for, of a map or of a target."""

from __future__ import annotations

from typing import Any

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.errors import ConfigError
from lvmcore.models import MODELS, PREDICTORS, AnyModel, estimator_class, model_class
from lvmcore.parameters import check_settings
from lvmcore.runs.job import Job, JobSpec


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


def settings_of(spec: JobSpec) -> dict[str, Any]:
    """The settings of a run, with the defaults of those that it does not name."""
    models = {**MODELS, **PREDICTORS}
    known = models[spec.model].parameters() if spec.model in models else ()
    return {parameter.name: parameter.default for parameter in known} | dict(spec.parameters)


def continued_spec(job: Job, max_iter: int) -> JobSpec:
    """What fits a run's model with more steps.

    Args:
        job: a fit that is done and whose bound was still rising when its steps ran out.
        max_iter: steps in all.

    Raises:
        ConfigError: the run did not end so, or the steps are no more than it had or more than the
            model allows.
    """
    if not job.still_rising:
        raise ConfigError(
            f"The run {job.name} cannot go on with more steps: expected a fit that is done and "
            "whose bound was still rising when its steps ran out."
        )
    spec = job.spec
    had = make_estimator(spec).get_params(deep=False).get("max_iter")
    if had is None:
        raise ConfigError(
            f"The run {job.name} cannot go on with more steps: its model has no setting for "
            "their number."
        )
    if max_iter <= had:
        raise ConfigError(
            f"{max_iter} steps are no more than the {had} that the run {job.name} had: choose "
            "a larger number."
        )
    longer = JobSpec(
        dataset=spec.dataset,
        dataset_name=spec.dataset_name,
        model=spec.model,
        parameters={**spec.parameters, "max_iter": max_iter},
        name=spec.name,
        continues=job.id,
        target=spec.target,
        groups=spec.groups,
        time=spec.time,
    )
    make_estimator(longer)
    return longer
