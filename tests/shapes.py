"""Shapes in signatures, checked at every call that a test makes."""

import inspect
from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray, install_import_hook

# The packages whose signatures are checked.
PACKAGES = [f"lvmcore.{name}" for name in ("numerics", "kernels", "gp", "qep", "deep")]


def check_shapes() -> None:
    """Check the signatures of `PACKAGES` in this process; call it before they are imported."""
    install_import_hook(PACKAGES, "tests.shapes.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments and result checked where they are arrays of a given shape.

    mypy checks the other types; some of them, such as protocols, have no check at run time.
    """
    annotations = function.__annotations__
    function.__annotations__ = {
        name: annotation for name, annotation in annotations.items() if _has_shape(annotation)
    }
    return beartype(function) if function.__annotations__ else function


def _has_shape(annotation: object) -> bool:
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        return True
    return any(_has_shape(argument) for argument in get_args(annotation))
