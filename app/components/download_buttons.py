"""Download buttons of a table in several formats."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from lvmcore.export.anndata import writes_h5ad

__all__ = ["table_downloads"]

_H5AD = (
    "AnnData: latent means and sds in obsm, the features in X, labels and other columns in obs, "
    "and the provenance of the map in uns."
)


def table_downloads(
    title: str,
    stem: str,
    *,
    csv: Callable[[], bytes],
    parquet: Callable[[], bytes],
    about: str,
    key: Callable[[str], str],
    h5ad: Callable[[], bytes] | None = None,
) -> None:
    """Draw a download button for each format; the file is made when the button is pressed.

    Args:
        title: name of the table, followed by "as CSV" on the button.
        stem: name of the file without its extension.
        csv: makes the CSV file.
        parquet: makes the Parquet file.
        about: description of the columns.
        key: makes the widget key of a button from the extension.
        h5ad: makes the AnnData file of a table with latent positions; None for none.
    """
    kinds = [
        ("CSV", csv, "text/csv", "csv", about),
        ("Parquet", parquet, "application/vnd.apache.parquet", "parquet", about),
    ]
    if h5ad is not None and writes_h5ad():
        kinds.append(("H5AD", h5ad, "application/x-hdf5", "h5ad", _H5AD))
    for kind, content, mime, extension, description in kinds:
        st.download_button(
            f"{title} as {kind}",
            content,
            file_name=f"{stem}.{extension}",
            mime=mime,
            on_click="ignore",
            help=description,
            key=key(extension),
        )
