"""A table handed out as a file, in each of the formats that it comes in."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

__all__ = ["offer"]


def offer(
    title: str,
    stem: str,
    *,
    csv: Callable[[], bytes],
    parquet: Callable[[], bytes],
    about: str,
    key: Callable[[str], str],
) -> None:
    """Draw a download button for each format; the file is made when it is pressed.

    Args:
        title: what the table is, as the beginning of "… as CSV".
        stem: name of the file without its ending.
        csv: makes the CSV file.
        parquet: makes the Parquet file.
        about: what the columns are.
        key: makes the key of a button from the file's ending.
    """
    kinds = (
        ("CSV", csv, "text/csv", "csv"),
        ("Parquet", parquet, "application/vnd.apache.parquet", "parquet"),
    )
    for kind, content, mime, ending in kinds:
        st.download_button(
            f"{title} as {kind}",
            content,
            file_name=f"{stem}.{ending}",
            mime=mime,
            on_click="ignore",
            help=about,
            key=key(ending),
        )
