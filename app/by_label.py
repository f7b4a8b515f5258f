"""Which of several label columns colours a map that forms."""

from __future__ import annotations

import streamlit as st

from app import services
from app.colouring import Categories
from app.words import shortened, told_apart
from lvmcore.errors import LatentboardError

__all__ = ["classes"]


def classes(run: str, *, key: str) -> Categories | None:
    """Classes of the rows of a fit, of the label column that is asked for where there are several.

    Args:
        run: the fit.
        key: of the choice.

    Returns:
        None without labels, or where the rows of the fit are gone.
    """
    try:
        labels = list(services.fitted_dataset(run).label_columns)
        if len(labels) < 2:
            return services.classes(run)
        told = told_apart(shortened(name) for name in labels)
        place = st.selectbox(
            "Colour of the map",
            range(len(labels)),
            format_func=told.__getitem__,
            key=key,
            help="The label column whose classes colour the rows.",
            persist_state="session",
        )
        return services.classes(run, labels[place])
    except LatentboardError:
        return None
