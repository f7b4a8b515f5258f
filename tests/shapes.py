"""Shapes in signatures, checked at the calls that a test makes."""

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray, _import_hook, install_import_hook, jaxtyped

__all__ = ["check_shapes", "checked", "start_test"]

# The packages whose signatures are checked.
PACKAGES = [f"lvmcore.{name}" for name in ("numerics", "kernels", "gp", "qep", "deep")]
#: In each test, a function is checked at so many calls, and then at every so manieth. A check takes
#: as long as a small kernel matrix, and a fit makes the same call at each step.
FIRST_CALLS, LATER_CALLS = 3, 128

_current = {"test": 0}


def check_shapes() -> None:
    """Check the signatures of `PACKAGES` in this process; call it before they are imported."""
    jaxtyping.jaxtyped = _jaxtyped  # type: ignore[assignment]
    install_import_hook(PACKAGES, "tests.shapes.checked")
    loader = _import_hook._JaxtypingLoader
    loader.source_to_code = _one_at_a_time(loader.source_to_code)  # type: ignore[method-assign]


def _one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called by one thread at a time.

    Python 3.11 counts the depth of a syntax tree for all threads together, and raises SystemError
    where two of them parse: a test imports while the dashboard's own thread does.
    """
    lock = threading.Lock()

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        with lock:
            return function(*args, **keywords)

    return call


def start_test() -> None:
    """Have the first calls of every function checked again."""
    _current["test"] += 1


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


def _jaxtyped(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """What the import hook decorates functions and classes with."""
    decorate = jaxtyped(typechecker=typechecker)

    def decorated(item: Any) -> Any:
        return decorate(item) if inspect.isclass(item) else _checked_at_times(item, decorate(item))

    return decorated


def _checked_at_times(
    function: Callable[..., Any], whole: Callable[..., Any]
) -> Callable[..., Any]:
    """The function, checked at its first calls in a test and then now and again.

    Args:
        function: without checks.
        whole: the same, checked at every call.
    """
    test, calls = -1, 0

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        nonlocal test, calls
        test, calls = _current["test"], calls + 1 if test == _current["test"] else 0
        if calls < FIRST_CALLS or not calls % LATER_CALLS:
            return whole(*args, **keywords)
        return function(*args, **keywords)

    return call
