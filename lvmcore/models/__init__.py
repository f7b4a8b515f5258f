"""The models, found by discovery: every estimator in a module of this package, by its key.

``MODELS`` holds those of a map, ``PREDICTORS`` those of a target.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import TypeVar

from lvmcore import persistence
from lvmcore.base.estimator import Estimator
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.errors import ConfigError, DataError

__all__ = ["MODELS", "PREDICTORS", "load", "load_map", "load_predictor"]


Base = TypeVar("Base", bound=Estimator)


def _discover(base: type[Base]) -> dict[str, type[Base]]:
    found: list[type[Base]] = []
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        found += [
            member
            for member in members
            if isinstance(member, type)
            and issubclass(member, base)
            and member.__module__ == module.name
            and "key" in vars(member)
        ]
    return {model.key: model for model in sorted(found, key=lambda model: model.order)}


MODELS: dict[str, type[LatentVariableModel]] = _discover(LatentVariableModel)  # type: ignore[type-abstract]
PREDICTORS: dict[str, type[Predictor]] = _discover(Predictor)  # type: ignore[type-abstract]


def load(path: str | os.PathLike[str]) -> LatentVariableModel | Predictor:
    """Load a model that ``save`` wrote.

    Raises:
        DataError: the file is missing, torn, no model file, or of a model unknown here.
    """
    arrays, meta = persistence.read(path)
    known = {**MODELS, **PREDICTORS}
    if meta["model"] not in known:
        raise DataError(
            f"{path} holds a model of kind {meta['model']!r}, which this version does not know. "
            f"It knows: {', '.join(known)}."
        )
    given = persistence.with_prefix(arrays, "setting.")
    model = known[meta["model"]](**meta["parameters"], **given)
    return model._restore(arrays, meta)


def load_map(path: str | os.PathLike[str]) -> LatentVariableModel:
    """``load`` of a model that has a map.

    Raises:
        DataError: as ``load``, or the model predicts a target.
    """
    model = load(path)
    if isinstance(model, Predictor):
        raise DataError(f"{path} holds {model.title}, which predicts a target and has no map.")
    return model


def load_predictor(path: str | os.PathLike[str]) -> Predictor:
    """``load`` of a model that predicts a target.

    Raises:
        DataError: as ``load``, or the model has a map.
    """
    model = load(path)
    if not isinstance(model, Predictor):
        raise DataError(f"{path} holds {model.title}, which has a map and predicts no target.")
    return model


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
