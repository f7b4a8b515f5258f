"""Classes of the rows of a fit, with a choice among label columns."""

from __future__ import annotations

import streamlit as st

from app.analysis.map.row_colours import CategoryStyle
from app.formatting import distinct_titles, shortened
from app.services import fitted_maps, run_colours
from lvmcore.errors import LatentboardError

__all__ = ["choose_class_style"]


def choose_class_style(run: str, *, key: str) -> CategoryStyle | None:
    """Classes of the rows of a fit; of several label columns, the one chosen here.

    Args:
        run: id of the fit.
        key: widget key of the choice.

    Returns:
        None without labels, if the data were deleted, or for a fit to all rows of files, of which
        the dataset has a sample.
    """
    try:
        dataset = fitted_maps.fitted_dataset(run)
        labels = list(dataset.label_columns)
        if len(labels) < 2 or dataset.files is not None:
            return run_colours.snapshot_style(run)
        titles = distinct_titles(shortened(name) for name in labels)
        position = st.selectbox(
            "Colour of the map",
            range(len(labels)),
            format_func=titles.__getitem__,
            key=key,
            help="The label column of the row colours.",
            persist_state="session",
        )
        return run_colours.class_style(run, labels[position])
    except LatentboardError:
        return None
