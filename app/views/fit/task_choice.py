"""Choice of the task of a fit: a map, or the prediction of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from app.analysis.tables import model_cards as tables_model_cards
from app.analysis.tables.model_cards import MapCard, ModelCard, TargetCard
from app.formatting import count, distinct_titles, listed, markdown, shortened
from app.services import model_cards, prediction
from app.state.choices import TargetChoice
from app.state.session import session
from app.state.widgets import set_default_value, set_widget_value, widget_key
from lvmcore.data import Dataset
from lvmcore.prediction.target_rows import HELD_OUT
from lvmcore.recommend.latent_models import Proposal, TableSummary
from lvmcore.recommend.target_models import TargetSummary
from lvmcore.runs import Job

__all__ = ["ModelOffer", "choose_task", "model_offer", "show_task"]

_Split = Literal["drawn", "groups", "time"]
_MAP = ""
#: Names of the widgets.
_TARGET, _SPLIT, _SPLIT_BY = "target", "split", "split by"
_SPLITS: dict[_Split, str] = {
    "drawn": f"{100 * HELD_OUT:g} % of the rows, at random",
    "groups": "whole groups of a column",
    "time": "the last rows by a column",
}


def choose_task(dataset: Dataset, job: Job | None) -> TargetChoice | None:
    """Draw the choice of a column to predict, and of the held-out rows of such a fit.

    Args:
        dataset: the dataset of the fit.
        job: the open run of this dataset, whose target is the default.
    """
    found = prediction.target_columns(dataset)
    if not found:
        return None
    fitted = None
    if job is not None and job.spec.target in found:
        fitted = TargetChoice(job.spec.target, job.spec.groups, job.spec.time)
    run = None if job is None else job.id
    now = session.target.get((dataset.digest, run), fitted)
    key = partial(widget_key, "fit", dataset.digest, run)
    options = [_MAP, *found]
    titles = _titles(options, "none: fit a map")
    left, middle, right = st.columns([1, 1, 1])
    set_default_value(key(_TARGET), now.target if now is not None and now.target in found else _MAP)
    with left:
        target = st.selectbox(
            "Target",
            options,
            format_func=titles.__getitem__,
            key=key(_TARGET),
            help="A column to predict from the others; without one, a map is fitted.",
        )
    aim = None
    if target:
        before = now if now is not None and now.target == target else TargetChoice(target)
        aim = _choose_held_out(dataset, before, key, middle, right)
        _unused_categories_note(dataset, {target, aim.groups})
        for name, scale in prediction.dates_as_features(dataset, target, aim.groups).items():
            st.caption(f"No other feature is left. {markdown(scale.note(name))}")
    if aim != now:
        session.target[dataset.digest, run] = aim
    return aim


def show_task(digest: str, run: str | None, aim: TargetChoice | None) -> None:
    """Show another task, for callbacks.

    Args:
        digest: of the dataset.
        run: id of the open run of this dataset; None without one.
        aim: the column to predict; None for a map.
    """
    session.target[digest, run] = aim
    key = partial(widget_key, "fit", digest, run)
    set_widget_value(key(_TARGET), _MAP if aim is None else aim.target)
    if aim is not None:
        kind = _split(aim)
        set_widget_value(key(_SPLIT), kind)
        if kind != "drawn":
            set_widget_value(key(_SPLIT_BY, kind), aim.groups or aim.time)


def _split(aim: TargetChoice) -> _Split:
    """How the held-out rows of a fit to a target are chosen."""
    return "groups" if aim.groups else "time" if aim.time else "drawn"


def _unused_categories_note(dataset: Dataset, excluded: set[str]) -> None:
    """Note on categories that the fit does not use."""
    names = [name for name in prediction.unused_categories(dataset) if name not in excluded]
    if names:
        verb = "is a category" if len(names) == 1 else "are categories"
        st.caption(
            f"{markdown(listed(names))} {verb} and not used. To learn from a category, choose "
            "one-hot as its transform on the Data page: a 0/1 feature for each level, all 0 for a "
            "row with an unknown level."
        )


def _choose_held_out(
    dataset: Dataset, now: TargetChoice, key: Any, middle: Any, right: Any
) -> TargetChoice:
    """Choice of the held-out rows of a fit to a target."""
    if dataset.held_out.any():
        with middle:
            st.caption(
                f"Scored on the {count(int(dataset.held_out.sum()), 'held-out row')} of the Data "
                "page."
            )
        return TargetChoice(now.target)
    set_default_value(key(_SPLIT), _split(now))
    with middle:
        kind: _Split = st.selectbox(
            "Scored on",
            list(_SPLITS),
            format_func=_SPLITS.__getitem__,
            key=key(_SPLIT),
            help="Held-out rows, on which the predictions are scored.",
        )
    if kind == "drawn":
        return TargetChoice(now.target)
    columns = _columns(dataset, now.target, by_time=kind == "time")
    with right:
        if not columns:
            values = "dates or numbers" if kind == "time" else "groups"
            st.caption(f"No other column has {values}: the rows are chosen at random.")
            return TargetChoice(now.target)
        named = now.time if kind == "time" else now.groups
        set_default_value(key(_SPLIT_BY, kind), named if named in columns else columns[0])
        column = st.selectbox(
            "By the column",
            columns,
            format_func=_titles(columns).__getitem__,
            key=key(_SPLIT_BY, kind),
            help="The column of the groups, or of the order of the rows.",
        )
    return (
        TargetChoice(now.target, time=column)
        if kind == "time"
        else TargetChoice(now.target, groups=column)
    )


def _titles(names: Sequence[str], of_none: str = "") -> dict[str, str]:
    """Titles of columns in a selector, distinct where their beginnings are the same.

    Args:
        names: the columns; "" for none.
        of_none: title of none.
    """
    titles = distinct_titles(shortened(name) if name else of_none for name in names)
    return dict(zip(names, titles, strict=True))


def _columns(dataset: Dataset, target: str, *, by_time: bool) -> list[str]:
    """The columns that order the rows, dates first; or those that group them."""
    frame = dataset.frame.drop(columns=target)
    if by_time:
        dates = [n for n in frame if pd.api.types.is_datetime64_any_dtype(frame[n].dtype)]
        numbers = [
            name
            for name in frame
            if pd.api.types.is_numeric_dtype(frame[name].dtype)
            and not pd.api.types.is_bool_dtype(frame[name].dtype)
        ]
        return [str(name) for name in (*dates, *numbers)]
    return [str(name) for name in frame if 1 < frame[name].nunique() < frame[name].count()]


@dataclass(frozen=True)
class ModelOffer:
    """The models of a task.

    Attributes:
        cards: cards of the models, in the order of the page.
        best: the recommended model.
        refusals: why a model cannot be fitted, by its key; None if it can.
        shape: summary of the table.
        target: summary of the column to predict; None for a map.
    """

    cards: Sequence[ModelCard]
    best: Proposal
    refusals: Mapping[str, str | None]
    shape: TableSummary
    target: TargetSummary | None = None

    def suggest(self, card: ModelCard) -> dict[str, Any]:
        """Suggested settings of a model."""
        if isinstance(card, TargetCard):
            assert self.target is not None
            return card.suggest(self.target)
        assert isinstance(card, MapCard)
        return card.suggest(self.shape)

    def with_advice(self, card: ModelCard, values: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with the suggestion in place of None."""
        suggested = self.suggest(card)
        return {
            name: suggested.get(name) if value is None else value for name, value in values.items()
        }

    def advice(self, card: ModelCard) -> tuple[str, ...]:
        """Reasons for the suggested settings, a sentence each."""
        if isinstance(card, TargetCard):
            assert self.target is not None
            return card.advice(self.target)
        assert isinstance(card, MapCard)
        return card.advice(self.shape)

    def route(self, card: ModelCard, values: Mapping[str, Any]) -> str | None:
        """Which rows a step uses; None if there is no alternative."""
        maps = [one for one in self.cards if isinstance(one, MapCard)]
        return (
            tables_model_cards.route(maps, card, self.shape, values)
            if isinstance(card, MapCard)
            else None
        )


def model_offer(dataset: Dataset, shape: TableSummary, aim: TargetChoice | None) -> ModelOffer:
    """The models of a task, with the reasons why some cannot be fitted.

    Args:
        dataset: the dataset of the fit.
        shape: its summary.
        aim: the column to predict; None for a map.
    """
    target = None if aim is None else prediction.target_summary(dataset, aim.target)
    if target is None:
        found = model_cards.cards()
        refusals = {card.key: tables_model_cards.refusal(card, shape) for card in found}
        return ModelOffer(found, tables_model_cards.recommend(found, shape), refusals, shape)
    known = sorted(model_cards.target_cards(), key=lambda card: card.task != target.task)
    refused = {card.key: tables_model_cards.refusal_for_target(card, target) for card in known}
    return ModelOffer(
        known, tables_model_cards.recommend_for_target(known, target), refused, shape, target
    )
