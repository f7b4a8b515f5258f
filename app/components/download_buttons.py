"""Download buttons of tables, models and animations in several formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from app.formatting import markdown
from app.services.run_exports import gpytorch_archive
from lvmcore.export.animation import MP4_PACKAGE, AnimationFormat, writes_mp4
from lvmcore.export.anndata import writes_h5ad
from lvmcore.export.gpytorch.exportable_models import is_exported
from lvmcore.runs import Job

__all__ = ["animation_downloads", "file_download", "gpytorch_download", "table_downloads"]

_H5AD = (
    "AnnData: latent means and sds in obsm, the features in X, labels and other columns in obs, "
    "and the provenance of the map in uns."
)

_GPYTORCH = (
    "The model in classes of gpytorch, its weights, and a script that predicts from a CSV file."
)


def file_download(
    title: str,
    content: Callable[[], bytes],
    name: str,
    *,
    mime: str,
    about: str,
    key: str,
    disabled: bool = False,
) -> None:
    """Draw a download button; the file is made when the button is pressed.

    Args:
        title: text of the button.
        content: makes the file.
        name: name of the file.
        mime: its media type.
        about: help text.
        key: the widget key.
        disabled: whether the file cannot be made here.
    """
    st.download_button(
        title,
        content,
        file_name=name,
        mime=mime,
        on_click="ignore",
        help=about,
        key=key,
        disabled=disabled,
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
        file_download(
            f"{title} as {kind}",
            content,
            f"{stem}.{extension}",
            mime=mime,
            about=description,
            key=key(extension),
        )


def animation_downloads(
    title: str,
    stem: str,
    content: Callable[[AnimationFormat], bytes],
    *,
    about: str,
    key: Callable[[str], str],
) -> None:
    """Draw the download buttons of an animation, in a line of their own.

    Where the package that writes MP4 files is not installed, that button is disabled, and the
    sentence below says how to install it.

    Args:
        title: name of the animation, followed by "as GIF" on the button.
        stem: name of the file without its extension.
        content: makes the file in a format.
        about: what the frames show.
        key: makes the widget key of a button from the extension.
    """
    kinds: tuple[tuple[AnimationFormat, str, bool], ...] = (
        ("gif", "image/gif", True),
        ("mp4", "video/mp4", writes_mp4()),
    )
    with st.container(horizontal=True):
        for form, mime, written in kinds:
            file_download(
                f"{title} as {form.upper()}",
                partial(content, form),
                f"{stem}.{form}",
                mime=mime,
                about=about if written else MP4_PACKAGE,
                key=key(form),
                disabled=not written,
            )
    if not all(written for *_, written in kinds):
        st.caption(markdown(MP4_PACKAGE))


def gpytorch_download(job: Job, *, key: str) -> None:
    """Draw the download button of the model as gpytorch, for a run that can be exported.

    Args:
        job: the run.
        key: the widget key.
    """
    if job.has_model and is_exported(job.spec):
        file_download(
            "gpytorch as ZIP",
            partial(gpytorch_archive, job.id),
            "gpytorch.zip",
            mime="application/zip",
            about=_GPYTORCH,
            key=key,
        )
