"""Estimators as keyword-only dataclasses: a setting is a line of the class body."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, TypeVar, dataclass_transform

__all__ = ["estimator_dataclass", "fitted"]

Class = TypeVar("Class")


def fitted(*, init: Literal[False] = False, default: Any = MISSING) -> Any:
    """Declare an attribute that a fit sets: it is no setting.

    Args:
        init: always False.
        default: its value before the first fit; by default the attribute is not there.
    """
    return field(init=init, default=default)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(fitted,))
def estimator_dataclass(cls: type[Class]) -> type[Class]:
    """Give a class a keyword-only constructor that stores its settings and does nothing else.

    Settings are the annotated attributes of the class body that have a value, such as
    ``n_inducing: Inducing = 25``, and those of its bases that are such dataclasses. Annotations
    without a value, and class variables, are none. In the signature the settings of a class come
    before those of its bases; one that a class declares anew stands where it does so.
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
