"""A sweep on the Fit page: several values for some settings, queued as a grid of fits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import streamlit as st

from app import navigation, services, state
from app.cards import ModelCard
from app.words import count, duration, markdown
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError

__all__ = ["offer"]

#: Settings that are swept at once, at most; those that decide nothing of the map are left out.
MOST_SWEPT = 3
_NOT_SWEPT = ("device", "dtype")


def offer(dataset: Dataset, card: ModelCard, values: Mapping[str, object]) -> None:
    """Draw the fold in which a sweep is put together.

    Args:
        dataset: what is fitted to.
        card: of the chosen model.
        values: the settings of the form, which all fits share but for those that are swept.
    """
    key = partial(state.widget, "fit", "sweep", card.key)
    known = {p.name: p for p in card.parameters if p.name not in _NOT_SWEPT}
    with st.expander("A sweep: the same fit with several values of a setting"):
        chosen = st.multiselect(
            "Settings that change",
            list(known),
            format_func=lambda name: known[name].label,
            max_selections=MOST_SWEPT,
            key=key("settings"),
            help="A fit is queued for every combination of their values; the other settings are "
            "those of the form above.",
        )
        texts = {}
        for name in chosen:
            texts[name] = st.text_input(
                f"Values of {known[name].label}",
                placeholder="2, 5, 10" if known[name].kind != "choice" else "one, another",
                key=key("values", name),
                help=f"Between commas, each {markdown(known[name].expected)}; 0..4 is 0 to 4.",
            )
        if not chosen:
            st.caption(
                "Choose a setting, then name its values: the maps are compared side by side."
            )
            return
        if not all(text.strip() for text in texts.values()):
            st.caption("Name the values of each setting.")
            return
        _queue(dataset, card, values, texts, key("start"))


def _queue(
    dataset: Dataset,
    card: ModelCard,
    values: Mapping[str, object],
    texts: Mapping[str, str],
    key: str,
) -> None:
    try:
        settings = services.sweep_of(card.key, values, texts)
    except LatentboardError as error:
        st.warning(markdown(error))
        return
    known, cost = services.estimate(dataset, card.key, settings[0])
    if known and cost is not None:
        steps = [int(one.get("max_iter", 0)) * int(one.get("n_restarts", 1)) for one in settings]
        whole = duration(sum(cost.seconds(one) for one in steps))
        st.caption(
            f"At most about {whole} one after the other, if each costs as much as the first."
        )
    if st.button(
        f"Queue {count(len(settings), 'fit')}",
        key=key,
        help="Puts all of them in the queue, and shows their maps as they end.",
    ):
        try:
            state.set_sweep(services.start_sweep(dataset, card.key, settings))
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            navigation.go("compare")
