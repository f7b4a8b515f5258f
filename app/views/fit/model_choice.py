"""Choice of the model: one list that is searched by name and purpose, with a filter."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.analysis.graphical_models.graphical_model import parse_symbol
from app.analysis.graphical_models.model_families import graphical_model
from app.analysis.tables.model_cards import ModelCard, distinguishing_traits
from app.formatting import count, grouped, markdown
from app.state.session import session
from app.state.widgets import set_widget_value, widget_key, widget_value
from app.views.fit.graphical_model_figures import graphical_model_svg
from app.views.fit.task_choice import ModelOffer

__all__ = ["MODEL", "TRAITS", "choose_model", "model_note", "refused_models"]

#: Keys of the list of models and of its filter.
MODEL, TRAITS = widget_key("fit", "model"), widget_key("fit", "traits")

#: Width of the list of the meanings of symbols beside a diagram.
_MEANINGS_PX = 260
_NOTATION = (
    "Shaded: observed. Open: unobserved, with a prior. Dots: parameters. Squares: functions of "
    "what leads to them. A frame repeats its contents."
)


def choose_model(offer: ModelOffer) -> ModelCard | None:
    """Draw the list of the models that can be fitted, and return the chosen one.

    The recommended model is chosen at first, and again where the chosen one cannot be fitted.

    Args:
        offer: the models of the task.

    Returns:
        None if no model can be fitted.
    """
    usable = {card.key: card for card in offer.cards if offer.refusals[card.key] is None}
    if not usable:
        return None
    chosen = session.model_key
    if chosen not in usable:
        chosen = offer.best.key if offer.best.key in usable else next(iter(usable))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        models = st.container(width="stretch")
        traits = _filter(tuple(usable.values()))
        diagram = st.container(width="content")
    found = [key for key, card in usable.items() if key == chosen or traits.issubset(card.supports)]
    found.sort(key=lambda key: key != offer.best.key)
    set_widget_value(MODEL, chosen)
    with models:
        st.selectbox(
            _title(len(found), len(usable)),
            found,
            format_func=lambda key: _option(usable[key], offer.best.key),
            key=MODEL,
            on_change=_choose,
            filter_mode="contains",
            help="Type a name or a purpose to search, such as groups, counts or linear.",
        )
    with diagram:
        _diagram(usable[chosen])
    return usable[chosen]


def _title(shown: int, models: int) -> str:
    return "Model" if shown == models else f"Model ({shown} of {models})"


def _option(card: ModelCard, best: str) -> str:
    return f"★ {card.line}" if card.key == best else card.line


def _choose() -> None:
    session.model_key = widget_value(MODEL)


def _filter(cards: Sequence[ModelCard]) -> frozenset[str]:
    """Draw the filter by what models support, where they differ in it."""
    traits = distinguishing_traits(cards)
    if not traits:
        return frozenset()
    chosen = [trait for trait in widget_value(TRAITS) or () if trait in traits]
    label = f"Filter ({len(chosen)})" if chosen else "Filter"
    with st.popover(label, width="content", key=widget_key("fit", "filter")):
        picked: list[str] = st.pills(
            "Models with all of",
            traits,
            selection_mode="multi",
            key=TRAITS,
            persist_state="session",
            help="The list then holds only these models, and the chosen one.",
        )
    return frozenset(picked)


def _diagram(card: ModelCard) -> None:
    """Draw the graphical model of the chosen model with the meaning of its symbols, folded."""
    model = graphical_model(card.key)
    with st.popover(
        "Diagram",
        width="content",
        key=widget_key("fit", "diagram"),
        help="The graphical model: the variables of the model, and which depend on which.",
    ):
        st.markdown(f"**{markdown(model.title)}**")
        with st.container(horizontal=True, gap="medium"):
            picture = graphical_model_svg(model, dark=session.is_dark)
            st.image(picture, alt=model.description)
            with st.container(width=_MEANINGS_PX, gap="xxsmall"):
                for one in model.variables:
                    st.caption(f"${parse_symbol(one.symbol).latex}$: {markdown(one.meaning)}")
        st.caption(_NOTATION + (" Dashed arrows: inference." if model.inference else ""))


def model_note(offer: ModelOffer, card: ModelCard) -> None:
    """Draw why the chosen model is recommended, or which one is, and what it supports."""
    reason = grouped(markdown(offer.best.reason))
    if card.key == offer.best.key:
        st.markdown(f":primary[★] Recommended here: {reason}.")
    else:
        best = next(one for one in offer.cards if one.key == offer.best.key)
        st.button(
            f":primary[★] Use {markdown(best.title)}, recommended here: {reason}",
            type="tertiary",
            key=widget_key("fit", "recommended"),
            on_click=_forget_choice,
            help="Chooses the recommended model.",
        )
    st.caption(markdown(" · ".join(card.supports)))


def _forget_choice() -> None:
    session.model_key = None


def refused_models(offer: ModelOffer) -> None:
    """Draw the models that cannot be fitted to this table, with the reasons."""
    refused = [(card, why) for card in offer.cards if (why := offer.refusals[card.key]) is not None]
    if not refused:
        return
    subject = "this table" if offer.target is None else "this column"
    with st.expander(f"Not for {subject}: {count(len(refused), 'model')}"):
        for card, why in refused:
            st.markdown(f"**{markdown(card.title)}**: {markdown(card.summary)}")
            st.caption(markdown(why))
