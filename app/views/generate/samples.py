"""Rows sampled from a fitted model, on the Generate page."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.generation import MOST_CELLS, MOST_ROWS, GeneratedRows
from app.components.download_buttons import table_downloads
from app.formatting import count, distinct_titles, markdown, shortened
from app.services import generation, row_analysis
from app.state.widgets import map_widget_key
from lvmcore.errors import LatentboardError
from lvmcore.prediction.label_columns import label_columns

__all__ = ["samples_panel"]

#: Rows on the page; the file holds all.
SHOWN = 100
#: Most classes to choose from.
MOST_CLASSES = 200


def samples_panel(fitted_map: FittedMap) -> None:
    """Draw the controls of a sample from the prior, a class or the selection, and its rows."""
    sources = _sources(fitted_map)
    if not sources:
        st.info(
            f"{markdown(fitted_map.model.title)} has no density to sample rows from. Select rows "
            "on the Latent page to sample near them, or fit a model with a density, such as the "
            "Bayesian GPLVM."
        )
        return
    source_column, number_column, seed_column = st.columns([2, 1, 1], gap="medium")
    chosen = source_column.selectbox(
        "Sample from",
        list(sources),
        format_func=lambda name: sources[name][0],
        key=map_widget_key(fitted_map, "drawn from"),
        help="The prior of the latent space, or the region of a class or of the selection.",
    )
    most = max(1, min(MOST_ROWS, MOST_CELLS // len(fitted_map.dataset.feature_names)))
    n = number_column.number_input(
        "Rows",
        min_value=1,
        max_value=most,
        value=min(100, most),
        key=map_widget_key(fitted_map, "drawn rows"),
        help=f"Number of rows to sample, at most {most}.",
    )
    seed = seed_column.number_input(
        "Seed",
        min_value=0,
        max_value=2**32 - 1,
        value=0,
        key=map_widget_key(fitted_map, "drawn seed"),
        help="The same seed gives the same rows from the same model.",
    )
    title, classes, rows = sources[chosen]
    draw = GeneratedRows(int(n), int(seed), classes, rows, title)
    try:
        frame = generation.generated_rows(fitted_map.run, draw)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    if len(frame) > SHOWN:
        st.caption(f"The first {SHOWN} of {count(len(frame), 'sampled row')}; the file holds all.")
    st.dataframe(
        frame.head(SHOWN),
        hide_index=True,
        height=320,
        key=map_widget_key(fitted_map, "drawn table"),
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        table_downloads(
            "Sampled rows",
            f"drawn-seed{draw.seed}-{generation.model_digest(fitted_map.run)}",
            csv=partial(generation.generated_csv, fitted_map.run, draw),
            parquet=partial(generation.generated_parquet, fitted_map.run, draw),
            about="The columns in data units, the source of the rows, the seed, and the digest of "
            "the model's file.",
            key=lambda ending: map_widget_key(fitted_map, f"drawn {ending}"),
        )
    st.caption(
        f"Sampled with the noise of a new observation, seed {draw.seed}, model "
        f"{generation.model_digest(fitted_map.run)}."
    )


def _sources(
    fitted_map: FittedMap,
) -> dict[str, tuple[str, tuple[str, object] | None, tuple[int, ...] | None]]:
    """Sources of a sample: title, class, and rows of the fit."""
    found: dict[str, tuple[str, tuple[str, object] | None, tuple[int, ...] | None]] = {}
    if fitted_map.model.capabilities.sampling:
        found["prior"] = ("the prior", None, None)
        columns = label_columns(fitted_map.model)
        classes = [(c, name) for c in columns for name in c.classes][:MOST_CLASSES]
        titles = distinct_titles(
            f"{shortened(c.name, 30)}: {shortened(name, 40)}" for c, name in classes
        )
        for title, (column, name) in zip(titles, classes, strict=True):
            found[f"class {title}"] = (title, (column.name, name), None)
    selected = row_analysis.current_selection_mask(fitted_map)
    if selected is not None and selected.any():
        rows = tuple(np.flatnonzero(selected).tolist())
        found["selection"] = (f"the selection, {count(len(rows), 'row')}", None, rows)
    return found
