"""The fit behind a figure of a paper: its data, fetched where need be, and its start."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app import navigation
from app.analysis.papers.catalogue import FitRecipe, PaperRow
from app.formatting import markdown
from app.services import model_cards, prediction, runs, server, tables
from app.state.choices import TargetChoice
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data import Dataset
from lvmcore.data.samples.paper_datasets import VARIABLE
from lvmcore.data.samples.public_datasets import fetch_public, public_dataset, public_names
from lvmcore.errors import LatentboardError

__all__ = ["fit_panel", "start_recipe"]

_LABEL = "label"


def fit_panel(row: PaperRow) -> None:
    """Draw the button that fits the model of a figure, or the one that fetches its data first."""
    if row.fit is None:
        st.caption("The benchmark draws or hides cells itself; this page cannot start its fit.")
        return
    if tables.has_paper_table(row.fit.data):
        _fit_button(row)
    elif row.fit.data in public_names():
        _fetch_button(row.fit.data)
    else:
        st.caption(
            f"These data have no public address. Set {VARIABLE} to a folder that holds them and "
            "start the dashboard again."
        )


def _fit_button(row: PaperRow) -> None:
    if st.button(
        "Fit this",
        type="primary",
        key=widget_key("papers", "fit"),
        disabled=not server.store().writable,
        help="Fits the model with the settings of this figure and shows its progress.",
    ):
        try:
            session.open_run_with_dataset(start_recipe(row))
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            navigation.go("fit")


def _fetch_button(name: str) -> None:
    dataset = public_dataset(name)
    size = f"{dataset.bytes / 1e6:.1f} MB" if dataset.bytes > 1e6 else f"{dataset.bytes // 1000} kB"
    if not st.button(
        f"Fetch the data ({size})",
        type="primary",
        key=widget_key("papers", "fetch"),
        help="Downloads the table from its public address and checks it. It is kept for later.",
    ):
        st.caption(markdown(f"From {dataset.address(dataset.files[0])}, kept in {dataset.folder}."))
        return
    bar = st.progress(0.0, "Fetching the data")
    try:
        fetch_public(name, lambda done, total: bar.progress(done / total, "Fetching the data"))
    except LatentboardError as error:
        bar.empty()
        st.error(markdown(error))
    else:
        st.rerun()


def start_recipe(row: PaperRow) -> str:
    """Submit the fit of a figure.

    Returns:
        Id of the run.

    Raises:
        DataError: the data are not on this machine, or cannot be stored.
        ConfigError: the queue is full.
    """
    assert row.fit is not None
    dataset = _dataset(row.fit)
    card = model_cards.all_cards()[row.model]
    if not row.fit.target:
        suggested = card.suggest(tables.table_summary(dataset))  # type: ignore[attr-defined]
        return runs.start_fit(dataset, row.model, {**suggested, **row.fit.settings})
    shape = prediction.target_summary(dataset, row.fit.target)
    suggested = {} if shape is None else card.suggest(shape)  # type: ignore[attr-defined]
    return runs.start_fit(
        dataset, row.model, {**suggested, **row.fit.settings}, TargetChoice(row.fit.target)
    )


def _dataset(fit: FitRecipe) -> Dataset:
    """The dataset of a fit; a column "label" is its label."""
    table = tables.paper_table(fit.data)
    roles = tables.proposed_roles(table)
    if _LABEL in [column.name for column in table.columns] and roles.label != _LABEL:
        features = tuple(name for name in roles.features if name != _LABEL)
        roles = replace(roles, features=features, label=_LABEL)
    return tables.dataset_of(table, roles)
