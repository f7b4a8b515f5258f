"""The fit behind a figure of a paper: its data, fetched where need be, and its start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from app import navigation
from app.analysis.papers.catalogue import FitRecipe, PaperRow
from app.analysis.papers.partial_tables import LABEL
from app.components.paper_data import data_panel
from app.formatting import markdown
from app.services import model_cards, prediction, runs, scores, server, tables
from app.state.choices import TargetChoice
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job, JobSpec

__all__ = ["fit_panel", "recipe_dataset", "recipe_run", "start_recipe"]


def fit_panel(row: PaperRow) -> None:
    """Draw the button that fits the model of a figure, or the one that fetches its data first."""
    if row.fit is None:
        st.caption("The benchmark compares several fits or chooses the rows, which no page does.")
        return
    if data_panel(row.fit.data, "papers"):
        _fit_button(row.model, row.fit)


def _fit_button(model: str, fit: FitRecipe) -> None:
    if st.button(
        "Fit this",
        type="primary",
        key=widget_key("papers", "fit"),
        disabled=not server.store().writable,
        help="Fits the model with the settings of this figure and shows its progress.",
    ):
        try:
            session.open_run_with_dataset(start_recipe(model, fit))
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            navigation.go("fit")


def start_recipe(model: str, fit: FitRecipe) -> str:
    """Submit the fit of a figure, or its learning curve; one that was stopped is resumed.

    Args:
        model: key of the model.
        fit: its data and settings.

    Returns:
        Id of the run.

    Raises:
        DataError: the data are not on this machine, or cannot be stored.
        ConfigError: the queue is full.
    """
    if fit.sizes:
        server.store().datasets.put(recipe_dataset(fit))
        return scores.start_learning_curve(_spec(model, fit))
    return runs.start_fit(*_choices(model, fit))


def recipe_run(model: str, fit: FitRecipe) -> Job | None:
    """The run of such a fit: one that is done, else a running or queued one; None without one.

    Args:
        model: key of the model.
        fit: its data and settings.

    Raises:
        DataError: the data are not on this machine.
    """
    return server.store().find(_spec(model, fit))


def _spec(model: str, fit: FitRecipe) -> JobSpec:
    """The job of a fit, or of its learning curve."""
    dataset, key, parameters, target = _choices(model, fit)
    spec = runs.fit_spec(dataset, key, parameters, target=target)
    return scores.learning_curve_spec(spec, fit.sizes, fit.repeats) if fit.sizes else spec


def _choices(
    model: str, fit: FitRecipe
) -> tuple[Dataset, str, dict[str, Any], TargetChoice | None]:
    """Dataset, model, settings and target of a fit: the suggested settings with its own."""
    dataset = recipe_dataset(fit)
    card = model_cards.all_cards()[model]
    if not fit.target:
        suggested = card.suggest(tables.table_summary(dataset))  # type: ignore[attr-defined]
        return dataset, model, {**suggested, **fit.settings}, None
    shape = prediction.target_summary(dataset, fit.target)
    suggested = {} if shape is None else card.suggest(shape)  # type: ignore[attr-defined]
    return dataset, model, {**suggested, **fit.settings}, TargetChoice(fit.target)


def recipe_dataset(fit: FitRecipe) -> Dataset:
    """The dataset of a fit; a column "label" is its label.

    Args:
        fit: the data and settings.

    Raises:
        DataError: the data are not on this machine.
    """
    table = tables.paper_table(fit.data, rows=fit.rows, hidden=fit.hidden)
    roles = tables.proposed_roles(table)
    if LABEL in [column.name for column in table.columns] and roles.label != LABEL:
        features = tuple(name for name in roles.features if name != LABEL)
        roles = replace(roles, features=features, label=LABEL)
    return tables.dataset_of(table, replace(roles, hold_out=fit.hold_out))
