"""Model and settings of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.errors import ConfigError
from lvmcore.models import REGISTRY, AnyModel, Purpose, model_class
from lvmcore.parameters import check_settings
from lvmcore.runs.job import Job, JobSpec

__all__ = ["check_spec", "continued_spec", "make_model", "settings_of"]


@overload
def make_model(spec: JobSpec, purpose: Literal["map"]) -> LatentVariableModel: ...


@overload
def make_model(spec: JobSpec, purpose: Literal["target"]) -> Predictor: ...


@overload
def make_model(spec: JobSpec, purpose: None = None) -> AnyModel: ...


def make_model(spec: JobSpec, purpose: Purpose | None = None) -> AnyModel:
    """The unfitted model of a run.

    The values of its settings are checked when the run is submitted.

    Args:
        spec: description of the run.
        purpose: required purpose of the model, "map" or "target"; None for either.

    Raises:
        ConfigError: the model or a setting of it is unknown; the model has the other purpose; the
            model predicts a target and the run has none, or the reverse.
    """
    cls = _model_class(spec, purpose)
    try:
        return cls(**spec.parameters)
    except TypeError:  # a run of another version, with other settings
        check_settings(cls, spec.parameters)
        raise


def check_spec(spec: JobSpec, columns: Sequence[str] | None = None) -> None:
    """Check the model and the settings of a fit, before it is put in a queue.

    A run of another kind has the settings of a fit, which were checked with that fit.

    Args:
        spec: description of the run.
        columns: names of the columns of its fit, if they are known.

    Raises:
        ConfigError: the model or a setting of it is unknown; a value is not allowed; the model
            predicts a target and the run has none, or the reverse.
    """
    if spec.kind == "fit":
        check_settings(_model_class(spec, None), spec.parameters, columns)


def _model_class(spec: JobSpec, purpose: Purpose | None) -> type[AnyModel]:
    cls = model_class(spec.model, purpose)
    if cls.task == "map" and spec.target:
        raise ConfigError(f"{cls.title} draws a map and predicts no target {spec.target!r}.")
    if cls.task != "map" and not spec.target:
        raise ConfigError(f"{cls.title} predicts a target: name the column.")
    return cls


def settings_of(spec: JobSpec) -> dict[str, Any]:
    """The settings of a run, with defaults for the missing ones."""
    known = REGISTRY[spec.model].parameters() if spec.model in REGISTRY else ()
    return {parameter.name: parameter.default for parameter in known} | dict(spec.parameters)


def continued_spec(job: Job, max_iter: int) -> JobSpec:
    """The description of a fit that continues a run with more steps.

    Args:
        job: a fit that is done and whose bound was still rising at its last step.
        max_iter: total number of steps.

    Raises:
        ConfigError: the run is not such a fit, or ``max_iter`` is not larger than before.
    """
    if not job.still_rising:
        raise ConfigError(
            f"The run {job.name} cannot be continued with more steps: expected a fit that is done, "
            "with its bound still rising at its last step."
        )
    spec = job.spec
    had = settings_of(spec).get("max_iter")
    if had is None:
        raise ConfigError(
            f"The run {job.name} cannot be continued with more steps: its model has no setting for "
            "their number."
        )
    if max_iter <= had:
        raise ConfigError(
            f"{max_iter} steps are no more than the {had} that the run {job.name} had: choose "
            "a larger number."
        )
    return JobSpec(
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
