"""Form of a sweep on the Fit page: a grid of fits over values of some settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import streamlit as st

from app import navigation
from app.analysis.tables.model_cards import ModelCard
from app.formatting import count, duration, markdown
from app.services import runs, sweeps
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError

__all__ = ["sweep_form"]

#: Most settings of a sweep, and settings without an effect on the map.
MOST_SWEPT = 3
_NOT_SWEPT = ("device", "dtype")


def sweep_form(dataset: Dataset, card: ModelCard, values: Mapping[str, object]) -> None:
    """Draw the form of a sweep, in an expander.

    Args:
        dataset: the dataset of the fits.
        card: card of the chosen model.
        values: the settings of the form, common to all fits except for the swept ones.
    """
    key = partial(widget_key, "fit", "sweep", card.key)
    known = {p.name: p for p in card.parameters if p.name not in _NOT_SWEPT}
    with st.expander("Sweep: fits with several values of a setting"):
        chosen = st.multiselect(
            "Settings to sweep",
            list(known),
            format_func=lambda name: known[name].label,
            max_selections=MOST_SWEPT,
            key=key("settings"),
            help="Every combination of their values is a fit; the other settings are those of the "
            "form above.",
        )
        texts = {}
        for name in chosen:
            texts[name] = st.text_input(
                f"Values of {known[name].label}",
                placeholder="2, 5, 10" if known[name].kind != "choice" else "one, another",
                key=key("values", name),
                help=f"Separated by commas, each {markdown(known[name].expected)}; 0..4 is 0 to 4.",
            )
        if not chosen:
            st.caption("Choose a setting and enter its values. The maps are compared side by side.")
            return
        if not all(text.strip() for text in texts.values()):
            st.caption("Enter the values of each setting.")
            return
        _start_button(dataset, card, values, texts, key("start"))


def _start_button(
    dataset: Dataset,
    card: ModelCard,
    values: Mapping[str, object],
    texts: Mapping[str, str],
    key: str,
) -> None:
    try:
        settings = sweeps.sweep_settings(card.key, values, texts)
    except LatentboardError as error:
        st.warning(markdown(error))
        return
    known, cost = runs.estimate_cost(dataset, card.key, settings[0])
    if known and cost is not None:
        steps = [int(one.get("max_iter", 0)) * int(one.get("n_restarts", 1)) for one in settings]
        total = duration(sum(cost.seconds(one) for one in steps))
        st.caption(f"At most about {total} one after another, if each takes as long as the first.")
    if st.button(
        f"Queue {count(len(settings), 'fit')}",
        key=key,
        help="Queues all fits and shows their maps as they finish.",
    ):
        try:
            session.sweep_id = sweeps.start_sweep(dataset, card.key, settings)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            navigation.go("compare")
