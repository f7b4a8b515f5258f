"""The models, found by discovery: every estimator in a module of this package, by its key."""

from __future__ import annotations

import importlib
import os
import pkgutil

from lvmcore import persistence
from lvmcore.base import LatentVariableModel
from lvmcore.errors import DataError

__all__ = ["MODELS", "load"]


def _discover() -> dict[str, type[LatentVariableModel]]:
    found = []
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        found += [
            member
            for member in members
            if isinstance(member, type)
            and issubclass(member, LatentVariableModel)
            and member.__module__ == module.name
            and "key" in vars(member)
        ]
    return {model.key: model for model in sorted(found, key=lambda model: model.order)}


MODELS: dict[str, type[LatentVariableModel]] = _discover()


def load(path: str | os.PathLike[str]) -> LatentVariableModel:
    """Load a model that ``save`` wrote.

    Raises:
        DataError: the file is missing, torn, no model file, or of a model unknown here.
    """
    arrays, meta = persistence.read(path)
    if meta["model"] not in MODELS:
        raise DataError(
            f"{path} holds a model of kind {meta['model']!r}, which this version does not know. "
            f"It knows: {', '.join(MODELS)}."
        )
    given = persistence.with_prefix(arrays, "setting.")
    model = MODELS[meta["model"]](**meta["parameters"], **given)
    return model._restore(arrays, meta)
