"""Registry of models: all estimators in the modules of this package, by key.

A model class declares its ``task`` ("map", "number" or "class") and its ``capabilities``.
``REGISTRY`` has all models in the order of the menus, models of a map first; ``MODELS`` are the
models of a map and ``PREDICTORS`` the models of a target. A model is imported when it is first
looked up; what it declares is known before (``MODELS.declarations``). Importing this package loads
neither torch nor scikit-learn.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from lvmcore.errors import ConfigError, DataError, LatentboardError
from lvmcore.models.declarations import ModelDeclaration, read_declarations
from lvmcore.models.registry import ModelRegistry

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor

    #: A model of a map or of a target.
    AnyModel = LatentVariableModel | Predictor

__all__ = [
    "MODELS",
    "PREDICTORS",
    "REGISTRY",
    "AnyModel",
    "ModelDeclaration",
    "Purpose",
    "check_model",
    "load",
    "model_class",
]

#: Purpose of a model: a map, or a target (a number or a class).
Purpose = Literal["map", "target"]

_DECLARED = read_declarations()
REGISTRY: ModelRegistry[AnyModel] = ModelRegistry(_DECLARED)
MODELS: ModelRegistry[LatentVariableModel] = ModelRegistry(
    {key: one for key, one in _DECLARED.items() if one.task == "map"}
)
PREDICTORS: ModelRegistry[Predictor] = ModelRegistry(
    {key: one for key, one in _DECLARED.items() if one.task != "map"}
)


def __getattr__(name: str) -> Any:
    if name == "AnyModel":  # a type for annotations
        from lvmcore.base.latent_variable_model import LatentVariableModel
        from lvmcore.base.predictor import Predictor

        return LatentVariableModel | Predictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    check_model(key, purpose)
    return REGISTRY[key]


def check_model(key: str, purpose: Purpose | None = None) -> None:
    """Check that there is a model with this key, without importing it.

    Args:
        key: key of the model.
        purpose: required purpose; None for either.

    Raises:
        ConfigError: there is no such model, or it has the other purpose.
    """
    if key not in REGISTRY:
        raise ConfigError(f"There is no model {key!r}. There are: {', '.join(REGISTRY)}.")
    if purpose == "map" and key not in MODELS:
        raise ConfigError(
            f"The model {key!r} predicts a target and has no map: expected one of "
            f"{', '.join(MODELS)}."
        )
    if purpose == "target" and key not in PREDICTORS:
        raise ConfigError(
            f"{REGISTRY.declarations[key].title} draws a map and predicts no target: expected one "
            f"of {', '.join(PREDICTORS)}."
        )


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
    from lvmcore.base.restored_model import check_restored
    from lvmcore.parameters import check_settings
    from lvmcore.persistence import read, with_prefix

    arrays, meta = read(path)
    cls = _saved_class(path, meta.get("model"), purpose)
    try:
        given = with_prefix(arrays, "setting.")
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
    title = REGISTRY.declarations[key].title
    if purpose == "map" and key not in MODELS:
        raise DataError(f"{path} holds {title}, which predicts a target and has no map.")
    if purpose == "target" and key not in PREDICTORS:
        raise DataError(f"{path} holds {title}, which has a map and predicts no target.")
    return REGISTRY[key]


def _describe(error: Exception) -> str:
    """An error of restoring a model, as a part of a sentence."""
    text = str(error).strip().rstrip(".").split("\n")[0]
    if isinstance(error, LatentboardError):
        return text
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
