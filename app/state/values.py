"""Descriptors for the values of a session: of the whole session, by key, and in the address.

Each value is declared once, as a class attribute of ``app.state.session.Session``, with its type,
its key in ``st.session_state`` and, where it has one, its query parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar, overload

import streamlit as st

__all__ = ["AddressValue", "KeyedAddressValue", "KeyedValue", "SessionValue"]

K = TypeVar("K")
T = TypeVar("T")


class SessionValue(Generic[T]):
    """A value of the session, read and assigned as an attribute: ``session.model_key = "ppca"``.

    Args:
        key: in ``st.session_state``.
        default: the value until one is assigned.
    """

    def __init__(self, key: str, default: T) -> None:
        self.key = key
        self.default = default

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        return self if instance is None else self.get()

    def __set__(self, instance: object, value: T) -> None:
        self.set(value)

    def get(self) -> T:
        """The value of the current session."""
        value: T = st.session_state.get(self.key, self.default)
        return value

    def set(self, value: T) -> None:
        """Assign the value of the current session."""
        st.session_state[self.key] = value


class AddressValue(SessionValue[T]):
    """A value of the session that the address of the page carries too.

    A value in the address takes precedence over the one of the session: a link, a refreshed page
    and a bookmark show what they name.

    Args:
        key: in ``st.session_state``.
        default: the value until one is assigned.
        parameter: name of the query parameter.
        decode: the value of a parameter's text, which is not empty.
        encode: the text of a value; "" leaves the parameter out of the address.
    """

    def __init__(
        self,
        key: str,
        default: T,
        *,
        parameter: str,
        decode: Callable[[str], T],
        encode: Callable[[T], str],
    ) -> None:
        super().__init__(key, default)
        self.parameter = parameter
        self._decode = decode
        self._encode = encode

    @property
    def in_address(self) -> bool:
        """Whether the address names a value."""
        return bool(st.query_params.get(self.parameter))

    def get(self) -> T:
        """The value in the address, else the one of the current session."""
        text = st.query_params.get(self.parameter)
        return self._decode(text) if text else super().get()

    def set(self, value: T) -> None:
        """Assign the value of the current session and of the address."""
        super().set(value)
        _set_parameter(self.parameter, self._encode(value))


class KeyedValue(Generic[K, T]):
    """A value of the session that belongs to a run, a dataset or the like.

    Read and assigned by key, ``session.point[run] = point``. Only the value of the last key is
    stored: assigning that of another key forgets it.

    Args:
        key: in ``st.session_state``.
        default: the value of a key until one is assigned.
    """

    def __init__(self, key: str, default: T) -> None:
        self.key = key
        self.default = default

    def __getitem__(self, owner: K) -> T:
        return self.get(owner, self.default)

    def __setitem__(self, owner: K, value: T) -> None:
        self.set(owner, value)

    def get(self, owner: K, default: T) -> T:
        """The value of a key, or this default in place of the declared one."""
        stored: dict[K, T] = st.session_state.get(self.key) or {}
        return stored.get(owner, default)

    def set(self, owner: K, value: T) -> None:
        """Assign the value of a key; for callbacks, which cannot hold an assignment."""
        st.session_state[self.key] = {owner: value}


class KeyedAddressValue(KeyedValue[str, str | None]):
    """A text that belongs to a run, and that the address of the page carries too.

    Args:
        key: in ``st.session_state``.
        parameter: name of the query parameter, which takes precedence.
    """

    def __init__(self, key: str, *, parameter: str) -> None:
        super().__init__(key, None)
        self.parameter = parameter

    def get(self, owner: str, default: str | None) -> str | None:
        """The text in the address, else that of a run in the current session."""
        return st.query_params.get(self.parameter) or super().get(owner, default)

    def in_address(self, owner: str) -> str | None:
        """The text in the address, where it is not the one assigned last, as after a step back.

        None where none was assigned to the run, or where they agree; "" where the address has none.
        """
        stored: dict[str, str | None] = st.session_state.get(self.key) or {}
        text = st.query_params.get(self.parameter) or ""
        return text if owner in stored and text != (stored[owner] or "") else None

    def forget(self) -> None:
        """Forget which text was assigned last: the address is one without any."""
        st.session_state.pop(self.key, None)

    def set(self, owner: str, value: str | None) -> None:
        """Assign the text of a run and of the address; None leaves it out of the address."""
        super().set(owner, value)
        _set_parameter(self.parameter, value or "")


def _set_parameter(parameter: str, text: str) -> None:
    """Set a query parameter, or remove it where the text is empty."""
    if not text:
        st.query_params.pop(parameter, None)
    elif st.query_params.get(parameter) != text:
        st.query_params[parameter] = text
