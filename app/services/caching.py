"""The cache of the server: one decorator for every function whose result all sessions share.

Streamlit hashes a sample of a large frame or array, and misses the change of a single cell. The
keys here never come from the cells of a table: a dataset and a table enter by their digests, an
array by the digest of all its bytes, a run by its id and attempt.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.services import server
from app.state.choices import FilesChoice, Upload
from lvmcore.data import Dataset, Table

__all__ = ["HashFunctions", "cached", "clear"]

P = ParamSpec("P")
R = TypeVar("R")

#: Keys of arguments by their type.
HashFunctions = Mapping[str | type[Any], Callable[[Any], Any]]

_clear_functions: list[Callable[[], None]] = []


def cached(
    *,
    max_entries: int | None = None,
    spinner: str | bool = False,
    depends_on_store: bool = True,
    hash_funcs: HashFunctions | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function for all sessions of the server.

    The key of a result holds every argument. An argument called ``run`` is the id of a run, one
    called ``runs`` a tuple of them: they enter with their attempts, since a run that is resumed
    ends with another model. A result is shared, not copied: callers must not change it. An error
    is not cached.

    Args:
        max_entries: results to keep; the oldest is dropped first. None keeps all.
        spinner: text that the page shows meanwhile; False shows nothing.
        depends_on_store: whether results depend on the store's runs and datasets. If so, the key
            holds the folder of the store, and ``clear`` drops the results.
        hash_funcs: the key of an argument by its type, beside those of this module.

    Returns:
        A decorator. The decorated function raises DataError for a run that does not exist.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        def compute(key: tuple[object, ...], _call: Callable[[], R]) -> R:
            del key
            return _call()

        # Streamlit tells caches apart by the names and the source of the function.
        compute.__module__ = function.__module__
        compute.__name__, compute.__qualname__ = function.__name__, function.__qualname__
        cache = st.cache_resource(
            max_entries=max_entries,
            show_spinner=spinner,
            hash_funcs=_HASH_FUNCS | dict(hash_funcs or {}),
        )(compute)
        if depends_on_store:
            _clear_functions.append(cache.clear)

        @functools.wraps(function)
        def lookup(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            key: tuple[object, ...] = tuple(
                _argument_key(name, value) for name, value in bound.arguments.items()
            )
            if depends_on_store:
                key = (server.store_home(), *key)
            return cache(key, lambda: function(*args, **kwargs))

        return lookup

    return decorate


def clear() -> None:
    """Drop all results of the store's runs and datasets, after a deletion of any of them."""
    for clear_cache in _clear_functions:
        clear_cache()


def _argument_key(name: str, value: Any) -> object:
    if name == "run":
        return _run_key(value)
    if name == "runs":
        return tuple(_run_key(run) for run in value)
    return value


def _run_key(run: str) -> tuple[str, int]:
    return run, server.store().get(run).attempt


def _table_key(table: Table) -> tuple[object, ...]:
    return table.digest, table.name, tuple(str(column.type) for column in table.columns)


def _array_key(array: NDArray[Any]) -> tuple[object, ...]:
    content = np.ascontiguousarray(array)
    return array.shape, array.dtype.str, hashlib.sha256(content.data).digest()


def _refuse_frame(frame: pd.DataFrame) -> NoReturn:
    raise TypeError(
        f"A data frame of {len(frame)} rows cannot be part of a cache's key. Pass its Dataset or "
        "Table, or a digest."
    )


_HASH_FUNCS: dict[str | type[Any], Callable[[Any], Any]] = {
    Dataset: lambda dataset: dataset.digest,
    Table: _table_key,
    Upload: lambda upload: (upload.digest, upload.name),
    FilesChoice: lambda files: (files.digest, files.name, files.paths),
    np.ndarray: _array_key,
    pd.DataFrame: _refuse_frame,
}
