"""A table handed out as a file, in each of the formats that it comes in."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from lvmcore.runs import writes_h5ad

__all__ = ["offer"]

_H5AD = (
    "AnnData: latent means and sds in obsm, the features in X, labels and other columns in obs, "
    "and where the map is from in uns."
)


def offer(
    title: str,
    stem: str,
    *,
    csv: Callable[[], bytes],
    parquet: Callable[[], bytes],
    about: str,
    key: Callable[[str], str],
    h5ad: Callable[[], bytes] | None = None,
) -> None:
    """Draw a download button for each format; the file is made when it is pressed.

    Args:
        title: what the table is, as the beginning of "… as CSV".
        stem: name of the file without its ending.
        csv: makes the CSV file.
        parquet: makes the Parquet file.
        about: what the columns are.
        key: makes the key of a button from the file's ending.
        h5ad: makes the AnnData file, of a table that holds places on a map; None for none.
    """
    kinds = [
        ("CSV", csv, "text/csv", "csv", about),
        ("Parquet", parquet, "application/vnd.apache.parquet", "parquet", about),
    ]
    if h5ad is not None and writes_h5ad():
        kinds.append(("H5AD", h5ad, "application/x-hdf5", "h5ad", _H5AD))
    for kind, content, mime, ending, told in kinds:
        st.download_button(
            f"{title} as {kind}",
            content,
            file_name=f"{stem}.{ending}",
            mime=mime,
            on_click="ignore",
            help=told,
            key=key(ending),
        )
