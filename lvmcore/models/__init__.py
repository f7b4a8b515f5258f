"""Registry of models: all estimators in the modules of this package, by key.

A model class declares its ``task`` ("map", "number" or "class") and its ``capabilities``.
``REGISTRY`` has all models in the order of the menus, models of a map first; ``MODELS`` are the
models of a map and ``PREDICTORS`` the models of a target.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import Any, Literal, overload

from lvmcore import persistence
from lvmcore.base.estimator import Estimator
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.base.restored_model import check_restored
from lvmcore.errors import ConfigError, DataError, LatentboardError
from lvmcore.parameters import check_settings

__all__ = ["MODELS", "PREDICTORS", "REGISTRY", "AnyModel", "Purpose", "load", "model_class"]

#: A model of a map or of a target.
AnyModel = LatentVariableModel | Predictor
#: Purpose of a model: a map, or a target (a number or a class).
Purpose = Literal["map", "target"]


def _discover() -> dict[str, type[AnyModel]]:
    found: list[type[AnyModel]] = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        found += [
            member
            for member in members
            if isinstance(member, type)
            and issubclass(member, Estimator)
            and issubclass(member, LatentVariableModel | Predictor)
            and member.__module__ == module.name
            and "key" in vars(member)
        ]
    found.sort(key=lambda model: (model.task != "map", model.order))
    return {model.key: model for model in found}


REGISTRY: dict[str, type[AnyModel]] = _discover()
MODELS: dict[str, type[LatentVariableModel]] = {
    key: model for key, model in REGISTRY.items() if issubclass(model, LatentVariableModel)
}
PREDICTORS: dict[str, type[Predictor]] = {
    key: model for key, model in REGISTRY.items() if issubclass(model, Predictor)
}


@overload
def model_class(key: str, purpose: Literal["map"]) -> type[LatentVariableModel]: ...


@overload
def model_class(key: str, purpose: Literal["target"]) -> type[Predictor]: ...


@overload
def model_class(key: str, purpose: None = None) -> type[AnyModel]: ...


def model_class(key: str, purpose: Purpose | None = None) -> type[AnyModel]:
    """The model with this key.

    Args:
        key: key of the model.
        purpose: required purpose; None for either.

    Raises:
        ConfigError: there is no such model, or it has the other purpose.
    """
    if key not in REGISTRY:
        raise ConfigError(f"There is no model {key!r}. There are: {', '.join(REGISTRY)}.")
    cls = REGISTRY[key]
    if purpose == "map" and cls.task != "map":
        raise ConfigError(
            f"The model {key!r} predicts a target and has no map: expected one of "
            f"{', '.join(MODELS)}."
        )
    if purpose == "target" and cls.task == "map":
        raise ConfigError(
            f"{cls.title} draws a map and predicts no target: expected one of "
            f"{', '.join(PREDICTORS)}."
        )
    return cls


@overload
def load(path: str | os.PathLike[str], purpose: Literal["map"]) -> LatentVariableModel: ...


@overload
def load(path: str | os.PathLike[str], purpose: Literal["target"]) -> Predictor: ...


@overload
def load(path: str | os.PathLike[str], purpose: None = None) -> AnyModel: ...


def load(path: str | os.PathLike[str], purpose: Purpose | None = None) -> AnyModel:
    """Load a model that ``save`` wrote.

    Args:
        path: the file.
        purpose: required purpose; None for either.

    Raises:
        DataError: the file is missing, incomplete, not a model file, or of an unknown model; or the
            model has the other purpose.
    """
    arrays, meta = persistence.read(path)
    cls = _saved_class(path, meta.get("model"), purpose)
    try:
        given = persistence.with_prefix(arrays, "setting.")
        settings: dict[str, Any] = check_settings(
            cls, {**cls.earlier_settings, **meta["parameters"], **given}
        )
        model = cls(**settings)._restore(arrays, meta)
        check_restored(model)
    except Exception as error:  # what a damaged file raises depends on the model and on the damage
        raise DataError(
            f"{path} is damaged: {_describe(error)}. Restore the file, or fit the model again."
        ) from error
    return model


def _saved_class(path: str | os.PathLike[str], key: Any, purpose: Purpose | None) -> type[AnyModel]:
    """The class of a saved model, if it has the required purpose."""
    if not isinstance(key, str) or key not in REGISTRY:
        raise DataError(
            f"{path} holds a model of kind {key!r}, which this version does not know. "
            f"It knows: {', '.join(REGISTRY)}."
        )
    cls = REGISTRY[key]
    if purpose == "map" and cls.task != "map":
        raise DataError(f"{path} holds {cls.title}, which predicts a target and has no map.")
    if purpose == "target" and cls.task == "map":
        raise DataError(f"{path} holds {cls.title}, which has a map and predicts no target.")
    return cls


def _describe(error: Exception) -> str:
    """An error of restoring a model, as a part of a sentence."""
    text = str(error).strip().rstrip(".").split("\n")[0]
    if isinstance(error, LatentboardError):
        return text
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
