"""Estimators as keyword-only dataclasses with settings as annotated class attributes."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, TypeVar, dataclass_transform

__all__ = ["estimator_dataclass", "fitted"]

Class = TypeVar("Class")


def fitted(*, init: Literal[False] = False, default: Any = MISSING) -> Any:
    """Declare an attribute that is set by the fit and is not a setting.

    Args:
        init: always False.
        default: value before the first fit; without one the attribute does not exist before.
    """
    return field(init=init, default=default)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(fitted,))
def estimator_dataclass(cls: type[Class]) -> type[Class]:
    """Add a keyword-only constructor that only stores the settings of the class.

    Settings are the annotated attributes of the class body with a value, such as
    ``n_inducing: Inducing = 25``, and the settings of its bases. Annotations without a value and
    class variables are not settings. In the signature the settings of a class precede those of its
    bases; a setting that a class declares again takes the position of that declaration.
    """
    declared = inspect.get_annotations(cls)
    cls.__annotations__ = {name: hint for name, hint in declared.items() if name in vars(cls)}
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    cls.__annotations__ = declared
    init = vars(made)["__init__"]
    parameters = dict(inspect.signature(init).parameters)
    names = [name for base in made.__mro__ for name in inspect.get_annotations(base)]
    ordered = [parameters[name] for name in ("self", *dict.fromkeys(names)) if name in parameters]
    init.__signature__ = inspect.Signature(ordered)
    return made
