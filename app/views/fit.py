"""Fit: choose a model and its settings, start, and watch."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import aiming, cost, forms, navigation, panel, services, state, sweeping, working
from app.cards import MapCard, ModelCard
from app.state import Aim
from app.words import count, grouped, listed, markdown, shortened
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs.proposal import Shape

_CARDS_PER_ROW = 4
_TO_THE_TOP = """<script>
document.querySelector('[data-testid="stMain"]').scrollTo({top: 0});
</script>"""


def page() -> None:
    """Draw the page."""
    st.title("Fit")
    try:
        dataset = working.dataset()
    except LatentboardError as error:
        st.error(markdown(error))
        navigation.link("Choose data", "data", key="data")
        return
    job = services.job(state.run_id())
    if job is None and state.run_id() is not None:
        st.warning("The run in the address is not there. It may have been deleted.")
    here = job is not None and job.spec.dataset == dataset.digest
    if job is not None and here:
        if state.take_started():  # by the button at the page's end; the curve is at its beginning
            st.html(_TO_THE_TOP, unsafe_allow_javascript=True)
        panel.show(job)
        st.divider()
        st.header("Fit again")
    shape = services.shape(dataset)
    st.markdown(f"{markdown(dataset.name)}: {_describe(dataset, shape)}.")
    aim = aiming.choose(dataset, job if here else None)
    _form(dataset, shape, aim)


def _describe(dataset: Dataset, shape: Shape) -> str:
    """The dataset in a line."""
    parts = [count(len(dataset.X), "row"), count(shape.columns, "feature")]
    for name, n in zip(dataset.label_columns, (shape.classes, *shape.further), strict=False):
        called = "label" if name.casefold() == "label" else f"label {markdown(name)}"
        parts.append(f"{called} with {count(n, 'class', 'classes')}")
    if dataset.held_out.any():
        parts.append(f"{count(int(dataset.held_out.sum()), 'row')} held out")
    text = ", ".join(parts)
    if shape.incomplete:
        text += f". {count(shape.incomplete, 'row')} lack a cell"
    return text


def _form(dataset: Dataset, shape: Shape, aim: Aim | None) -> None:
    """The model cards, the settings of the chosen one, and Start."""
    offer = aiming.offered(dataset, shape, aim)
    chosen = state.model_key()
    if chosen is None or offer.refusals.get(chosen, "") is not None:
        chosen = offer.best.key
    for first in range(0, len(offer.cards), _CARDS_PER_ROW):
        row = offer.cards[first : first + _CARDS_PER_ROW]
        for place, card in zip(st.columns(_CARDS_PER_ROW), row, strict=False):
            with place:
                best = card.key == offer.best.key
                reason = f"Recommended here: {offer.best.reason}." if best else None
                _card(card, chosen, offer.refusals[card.key], reason)
    card = next(card for card in offer.cards if card.key == chosen)
    refused = offer.refusals[card.key]
    st.header(f"Settings of {card.title}")
    if shape.further and isinstance(card, MapCard) and card.needs_labels:
        st.caption(markdown(_which_labels(dataset, card)))
    advice = offer.advice(card)
    if advice and refused is None:
        with st.container(gap="xxsmall"):
            st.caption("Set for this table, where it asks for something else than usual:")
            for sentence in advice:
                st.caption(grouped(markdown(sentence)))
    values = forms.parameter_form(
        card.parameters,
        offer.suggest(card),
        key=partial(state.widget, "fit", card.key, dataset.digest),
        choices={"device": services.devices()},
    )
    route = offer.route(card, values)
    if route is not None and refused is None:
        st.caption(grouped(markdown(route)))
    if state.problem() is not None:
        st.error(markdown(state.problem()))
    if refused is not None:
        st.warning(markdown(refused))
        return
    too_large = cost.refusal(dataset, card.key, values, aim)
    if too_large is not None:
        st.error(markdown(too_large))
        return
    if st.button(
        "Fit",
        type="primary",
        key=state.widget("fit", "start"),
        width=160,
        help="Starts the fit as a run of its own; other pages can be used meanwhile.",
    ):
        _start(dataset, card, values, aim)
    under_way = services.job(state.run_id())
    if aim is None:
        sweeping.offer(dataset, card, values)
    free = under_way is None or under_way.finished
    cost.show(dataset, card.key, values, aim, polling=free)


def _which_labels(dataset: Dataset, card: MapCard) -> str:
    """Which of several label columns the fit learns from."""
    first, *others = (shortened(name) for name in dataset.label_columns)
    if card.several_labels:
        return (
            f"Learns from {first} and {listed(others, 4)} at once: each has a path of its own from "
            "the map, with its own relevant dimensions."
        )
    return (
        f"Learns from one label: {first} is used, and {listed(others, 4)} not. LDGD and Fast LDGD "
        "learn from several; the Data page says which label is the first."
    )


def _card(card: ModelCard, chosen: str, refused: str | None, reason: str | None) -> None:
    """One model: when to use it, what it supports, and whether it suits the table."""
    mark = "chosen" if card.key == chosen else "card"
    with st.container(border=True, key=state.widget("fit", mark, card.key), height="stretch"):
        title = f"**{markdown(card.title)}**"
        st.markdown(f"{title} &nbsp; :primary[★]" if reason else title)
        st.markdown(f":gray[{markdown(card.summary)}]" if refused else markdown(card.summary))
        st.caption(markdown(" · ".join(card.supports)))
        if refused is not None:
            st.markdown(f":small[{markdown(refused)}]")
        elif reason is not None:
            st.markdown(f":small[{grouped(markdown(reason))}]")
        st.button(
            "Chosen" if card.key == chosen else "Choose",
            key=state.widget("fit", "choose", card.key),
            on_click=state.set_model_key,
            args=(card.key,),
            disabled=refused is not None or card.key == chosen,
            width="stretch",
            help="Shows this model's settings below.",
        )


def _start(dataset: Dataset, card: ModelCard, values: dict[str, object], aim: Aim | None) -> None:
    try:
        run = services.start_fit(dataset, card.key, values, aim)
    except LatentboardError as error:
        state.set_problem(str(error))
    else:
        state.set_problem(None)
        if not working.following():
            state.keep_source()
        state.open_run(run)
        state.set_started()
    st.rerun()


if __name__ == "__main__":  # as the navigation runs it
    page()
