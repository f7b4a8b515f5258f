"""Fit: choose a model and its settings, start a fit and follow its progress."""

from __future__ import annotations

from functools import partial
from importlib.resources import files

import streamlit as st

from app import navigation
from app.analysis.tables.model_cards import MapCard, ModelCard
from app.analysis.tables.row_counts import rows_in_words
from app.components import current_dataset
from app.components.empty_states import missing_run_warning
from app.components.undo_buttons import heading_line
from app.formatting import count, grouped, listed, markdown, shortened
from app.services import model_cards, prediction, runs, tables
from app.state.choices import TargetChoice
from app.state.session import session
from app.state.widgets import widget_key
from app.views.fit import cost_estimate
from app.views.fit.kernel_builder import KernelBuilder
from app.views.fit.live_run import live_run_panel
from app.views.fit.model_choice import choose_model, model_note, refused_models
from app.views.fit.parameter_form import parameter_form
from app.views.fit.sweep_form import sweep_form
from app.views.fit.task_choice import ModelOffer, choose_task, model_offer
from app.views.fit.undo_history import fit_undo_buttons, record_fit_choices
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.recommend.latent_models import TableSummary

_SCROLL_TO_TOP = files("app").joinpath("static", "scroll_to_top.js").read_text("utf-8")


def page() -> None:
    """Draw the page."""
    heading = heading_line(st.title, "Fit")
    try:
        dataset = current_dataset.dataset()
    except LatentboardError as error:
        st.error(markdown(error))
        navigation.link("Choose data", "data", key="data")
        return
    job = runs.job(session.run_id)
    if job is None:
        missing_run_warning()
    is_current = job is not None and job.spec.dataset == dataset.digest
    if job is not None and is_current:
        if session.fit_started:  # the button may be at the end of the page, the curves at the top
            session.fit_started = False
            st.html(f"<script>{_SCROLL_TO_TOP}</script>", unsafe_allow_javascript=True)
        live_run_panel(job)
        st.divider()
        heading = heading_line(st.header, "Fit again")
    shape = tables.table_summary(dataset)
    st.markdown(f"{markdown(dataset.name)}: {_describe(dataset, shape)}.")
    run = job if is_current else None
    target = choose_task(dataset, run)
    _model_form(dataset, shape, target)
    with heading:  # after the form, so that the last change can be undone
        fit_undo_buttons(dataset.digest, None if run is None else run.id)


def _describe(dataset: Dataset, shape: TableSummary) -> str:
    """Size of the dataset and its labels, in a line."""
    parts = [rows_in_words(dataset), count(shape.columns, "feature")]
    for name, n in zip(dataset.label_columns, (shape.classes, *shape.further), strict=False):
        title = "label" if name.casefold() == "label" else f"label {markdown(name)}"
        parts.append(f"{title} with {count(n, 'class', 'classes')}")
    if dataset.held_out.any():
        parts.append(f"{count(int(dataset.held_out.sum()), 'row')} held out")
    text = ", ".join(parts)
    if shape.incomplete:
        text += f". {count(shape.incomplete, 'row')} with missing cells"
    return text


def _model_form(dataset: Dataset, shape: TableSummary, target: TargetChoice | None) -> None:
    """The choice of a model, the button that fits it, and its settings."""
    offer = model_offer(dataset, shape, target)
    card = choose_model(offer)
    if card is None:
        st.warning(markdown(offer.refusals[offer.best.key] or ""))
        record_fit_choices(dataset.digest, target, None)
    else:
        words, action = st.columns([4, 1], gap="medium")
        with words:
            model_note(offer, card)
            if shape.further and isinstance(card, MapCard) and card.needs_labels:
                st.caption(markdown(_label_note(dataset, card)))
            estimate = st.container()
        values = _settings(dataset, offer, card, target)
        record_fit_choices(dataset.digest, target, card.key)
        too_large = cost_estimate.refusal(dataset, card.key, values, target)
        if session.start_error is not None:
            estimate.error(markdown(session.start_error))
        if too_large is not None:
            estimate.error(markdown(too_large))
        else:
            with action:
                _fit_button(dataset, card, values, target)
            with estimate:
                job = runs.job(session.run_id)
                idle = job is None or job.finished
                cost_estimate.cost_estimate_line(dataset, card.key, values, target, polling=idle)
            if target is None:
                sweep_form(dataset, card, values)
    refused_models(offer)


def _settings(
    dataset: Dataset, offer: ModelOffer, card: ModelCard, target: TargetChoice | None
) -> dict[str, object]:
    """The settings of the chosen model, with the advice for this table."""
    if target is not None:
        dataset = prediction.target_features(dataset, target.target, target.groups)
    columns = list(dataset.transformed_names)
    with st.container(border=True, key=widget_key("fit", "settings", card.key)):
        st.markdown(f"**Settings of {markdown(card.title)}**")
        advice = offer.advice(card)
        if advice:
            with st.container(gap="xxsmall"):
                st.caption("Settings for this table that differ from the defaults:")
                for sentence in advice:
                    st.caption(grouped(markdown(sentence)))
        values = parameter_form(
            card.parameters,
            offer.suggest(card),
            key=partial(widget_key, "fit", card.key, dataset.digest),
            choices={"device": model_cards.devices()},
            kernels=KernelBuilder(dataset, columns),
        )
        values = offer.with_advice(card, values)
        route = offer.route(card, values)
        if route is not None:
            st.caption(grouped(markdown(route)))
    return values


def _fit_button(
    dataset: Dataset, card: ModelCard, values: dict[str, object], target: TargetChoice | None
) -> None:
    if st.button(
        "Fit",
        type="primary",
        key=widget_key("fit", "start"),
        width="stretch",
        help="Starts the fit in the background; other pages stay usable.",
    ):
        _start(dataset, card, values, target)


def _label_note(dataset: Dataset, card: MapCard) -> str:
    """The label columns that the fit uses."""
    first, *others = (shortened(name) for name in dataset.label_columns)
    if card.several_labels:
        return (
            f"Learns from {first} and {listed(others, 4)}: each has its own path and relevant "
            "dimensions."
        )
    return (
        f"Learns from one label, {first}, and does not use {listed(others, 4)}. LDGD and Fast LDGD "
        "learn from several labels. The first label is chosen on the Data page."
    )


def _start(
    dataset: Dataset, card: ModelCard, values: dict[str, object], target: TargetChoice | None
) -> None:
    try:
        run = runs.start_fit(dataset, card.key, values, target)
    except LatentboardError as error:
        session.start_error = str(error)
    else:
        session.start_error = None
        if not current_dataset.uses_run_data():
            session.pin_source()
        session.run_id = run
        session.fit_started = True
    st.rerun()


if __name__ == "__main__":  # as the navigation runs it
    page()
