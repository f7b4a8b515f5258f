"""AnnData files: as anndata itself wrote them (in the folder h5ad), and put together by hand.

The three files were written by anndata 0.12.19 from Poisson counts [12, 6] (mean 1.5, NumPy's
``default_rng(7)``), gzipped: ``layers`` holds log(1 + counts) in X (CSR) and the counts in a layer
(CSC), four of six genes marked as highly variable; ``raw`` holds three genes, scaled, in X and all
counts in raw; ``dense`` holds the counts in X, dense, and nothing in obs.
"""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

__all__ = ["COUNTS", "GENES", "annotated", "by_anndata", "text"]

GENES = ["CD3E", "MS4A1", "NKG7", "LYZ", "GNLY", "PPBP"]
COUNTS = np.random.default_rng(7).poisson(1.5, (12, 6))
_FOLDER = Path(__file__).parent / "h5ad"


def by_anndata(name: str) -> bytes:
    """One of the files that anndata wrote."""
    return gzip.decompress((_FOLDER / f"{name}.h5ad.gz").read_bytes())


def text(group: Any, key: str, values: list[str]) -> None:
    """A dataset of strings."""
    group.create_dataset(key, data=np.array(values, dtype=object), dtype=h5py.string_dtype())


def annotated(
    X: NDArray[Any] | None, change: Callable[[Any], None] = lambda _: None, **obs: NDArray[Any]
) -> bytes:
    """The bytes of an AnnData file with a dense matrix, cells c0, c1, … and genes g0, g1, ….

    Args:
        X: The matrix; None for a file of three cells and two genes without one.
        change: Called with the open file before it is closed.
        obs: Columns of numbers.
    """
    rows, columns = (3, 2) if X is None else X.shape
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        if X is not None:
            file.create_dataset("X", data=X, compression="gzip" if X.size else None)
        for part, letter, length in (("obs", "c", rows), ("var", "g", columns)):
            group = file.create_group(part)
            group.attrs["_index"] = "_index"
            names = list(obs) if part == "obs" else []
            group.attrs.create("column-order", names, (len(names),), h5py.string_dtype())
            text(group, "_index", [f"{letter}{i}" for i in range(length)])
        for name, values in obs.items():
            file["obs"].create_dataset(name, data=values)
        change(file)
    return sink.getvalue()
