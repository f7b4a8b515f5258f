"""What is asked about the rows of a map: what sets some apart, which are near, which fit badly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.apart import Pair, Ranking
    from lvmcore.data import Dataset

__all__ = ["forget", "pairs", "ranking"]


def ranking(dataset: Dataset, selected: NDArray[np.bool_]) -> Ranking | None:
    """The columns of a dataset by how far they set selected rows apart: see ``app.apart``."""
    return _ranking(dataset, dataset.digest, np.packbits(selected).tobytes())


@st.cache_resource(show_spinner=False, max_entries=32)
def _ranking(_dataset: Dataset, digest: str, selected: bytes) -> Ranking | None:
    from app import apart

    del digest  # the cache's key, with the rows
    return apart.ranking(_dataset, _mask(selected, len(_dataset)))


def pairs(
    dataset: Dataset, selected: NDArray[np.bool_], names: tuple[str, ...]
) -> tuple[Pair, ...]:
    """How columns are spread among the selected rows and the others: see ``app.apart``."""
    rows = np.packbits(selected).tobytes()
    return tuple(_pair(dataset, dataset.digest, rows, name) for name in names)


@st.cache_resource(show_spinner=False, max_entries=256)
def _pair(_dataset: Dataset, digest: str, selected: bytes, name: str) -> Pair:
    from app import apart

    del digest  # the cache's key, with the rows
    return apart.pair(_dataset, _mask(selected, len(_dataset)), name)


def _mask(packed: bytes, rows: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=rows).astype(np.bool_)


def forget() -> None:
    """Let go of everything that was computed about rows."""
    for memory in (_ranking, _pair):
        memory.clear()
