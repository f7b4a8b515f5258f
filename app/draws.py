"""Rows drawn from a fitted model, on the Generate page."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from app import downloads, services
from app.generating import MOST_CELLS, MOST_ROWS, Draw
from app.opened import Opened
from app.words import count, markdown, shortened, told_apart
from lvmcore.errors import LatentboardError
from lvmcore.runs.labels import label_columns

__all__ = ["sample"]

#: Rows shown; the file holds all.
SHOWN = 100
#: Classes that can be chosen, at most.
MOST_CLASSES = 200


def sample(opened: Opened) -> None:
    """Rows drawn from the prior, a class or the selection: the controls, the first rows, a file."""
    sources = _sources(opened)
    if not sources:
        st.info(
            f"{markdown(opened.model.title)} has no density to draw rows from. Select rows on the "
            "Latent page to draw more like them, or fit a model that has one, such as the "
            "Bayesian GPLVM."
        )
        return
    from_, number, seeded = st.columns([2, 1, 1], gap="medium")
    chosen = from_.selectbox(
        "Drawn from",
        list(sources),
        format_func=lambda name: sources[name][0],
        key=opened.key("drawn from"),
        help="The prior is all that the model holds possible; a class or the selection is where "
        "its rows lie on the map.",
    )
    most = max(1, min(MOST_ROWS, MOST_CELLS // len(opened.dataset.feature_names)))
    n = number.number_input(
        "Rows",
        min_value=1,
        max_value=most,
        value=min(100, most),
        key=opened.key("drawn rows"),
        help=f"How many rows to draw, {most} at most.",
    )
    seed = seeded.number_input(
        "Seed",
        min_value=0,
        max_value=2**32 - 1,
        value=0,
        key=opened.key("drawn seed"),
        help="The same seed draws the same rows from the same model.",
    )
    title, classes, rows = sources[chosen]
    draw = Draw(int(n), int(seed), classes, rows, title)
    try:
        frame = services.drawn(opened.run, draw)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    if len(frame) > SHOWN:
        st.caption(f"The first {SHOWN} of {count(len(frame), 'drawn row')}; the file holds all.")
    st.dataframe(frame.head(SHOWN), hide_index=True, height=320, key=opened.key("drawn table"))
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.offer(
            "Drawn rows",
            f"drawn-seed{draw.seed}-{services.model_digest(opened.run)}",
            csv=partial(services.drawn_csv, opened.run, draw),
            parquet=partial(services.drawn_parquet, opened.run, draw),
            about="The columns in the data's units, then what the rows were drawn from, the seed, "
            "and the digest of the model's file.",
            key=lambda ending: opened.key(f"drawn {ending}"),
        )
    st.caption(
        f"Drawn with the noise of a new observation, seed {draw.seed}, model "
        f"{services.model_digest(opened.run)}."
    )


def _sources(
    opened: Opened,
) -> dict[str, tuple[str, tuple[str, object] | None, tuple[int, ...] | None]]:
    """What rows can be drawn from: title, class, and rows of the fit."""
    found: dict[str, tuple[str, tuple[str, object] | None, tuple[int, ...] | None]] = {}
    if opened.model.capabilities.sampling:
        found["prior"] = ("the prior", None, None)
        columns = label_columns(opened.model)
        classes = [(c, name) for c in columns for name in c.classes][:MOST_CLASSES]
        titles = told_apart(
            f"{shortened(c.name, 30)}: {shortened(name, 40)}" for c, name in classes
        )
        for title, (column, name) in zip(titles, classes, strict=True):
            found[f"class {title}"] = (title, (column.name, name), None)
    selected = opened.selected()
    if selected is not None and selected.any():
        rows = tuple(np.flatnonzero(selected).tolist())
        found["selection"] = (f"the selection, {count(len(rows), 'row')}", None, rows)
    return found
