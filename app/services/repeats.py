"""How far fits that differ by their seed alone agree on each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from app.services import maps, server

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["apart", "forget"]


def apart(runs: Sequence[str]) -> NDArray[np.float64] | None:
    """How far the maps of several runs disagree on each row, [N]; None where they have other rows.

    See ``app.repeats.apart``.

    Raises:
        DataError: a run has no model.
    """
    ordered = tuple(sorted(runs))
    return _apart(server.home(), ordered, tuple(maps.attempt(run) for run in ordered))


@st.cache_resource(show_spinner=False, max_entries=16)
def _apart(
    home: str | None, runs: tuple[str, ...], attempts: tuple[int, ...]
) -> NDArray[np.float64] | None:
    from app import repeats

    del home, attempts  # parts of the cache's key
    return repeats.apart([maps.model(run).embedding_.mean for run in runs])


def forget() -> None:
    """Let go of everything that was kept."""
    _apart.clear()
