"""Undo and redo of what is chosen for a fit: the task, the model and its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.components.undo_buttons import undo_buttons
from app.state.choices import FitChoices, TargetChoice
from app.state.session import session
from app.state.widgets import set_widget_value, widget_key, widget_values
from app.views.fit.task_choice import show_task

__all__ = ["fit_undo_buttons", "record_fit_choices"]


def record_fit_choices(digest: str, target: TargetChoice | None, model: str | None) -> None:
    """Record what the page shows as a step that can be undone.

    Args:
        digest: of the dataset.
        target: the column to predict; None for a map.
        model: key of the shown model; None if no model can be fitted.
    """
    fields = {} if model is None else widget_values(widget_key("fit", model, ""))
    session.fits[digest] = FitChoices(target, session.model_key, fields)


def fit_undo_buttons(digest: str, run: str | None) -> None:
    """Draw the buttons of undo and redo; after what is shown was recorded.

    Args:
        digest: of the dataset.
        run: id of the open run of this dataset; None without one.
    """
    history = session.fits
    undo_buttons(
        partial(widget_key, "fit", digest),
        partial(_move, digest, run, history.undo) if history.can_undo(digest) else None,
        partial(_move, digest, run, history.redo) if history.can_redo(digest) else None,
        "Takes back the last change of the task, the model or its settings.",
    )


def _move(digest: str, run: str | None, step: Callable[[str], FitChoices | None]) -> None:
    found = step(digest)
    if found is None:
        return
    show_task(digest, run, found.target)
    session.model_key = found.model
    for key, value in found.fields.items():
        set_widget_value(key, value)
