"""What the Fit page is to fit: a map, or a model that predicts a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from app import cards, services, state
from app.cards import MapCard, ModelCard, TargetCard
from app.state import Aim
from app.words import count, listed, markdown, shortened
from lvmcore.data import Dataset
from lvmcore.runs import Job
from lvmcore.runs.proposal import Proposal, Shape
from lvmcore.runs.target import HELD_OUT
from lvmcore.runs.target_proposal import TargetShape

__all__ = ["Offer", "choose", "offered"]

_Split = Literal["drawn", "groups", "time"]
_MAP = ""
_SPLITS: dict[_Split, str] = {
    "drawn": f"{100 * HELD_OUT:g} % of the rows, drawn",
    "groups": "whole groups of a column",
    "time": "the last rows by a column",
}


# ---- the choice ------------------------------------------------------------------------------


def choose(dataset: Dataset, job: Job | None) -> Aim | None:
    """Draw the choice of a column to predict, and of the rows that such a fit leaves out.

    Args:
        dataset: what is fitted to.
        job: the open run, where it is of this dataset: it says what is chosen at first.
    """
    found = services.targets(dataset)
    if not found:
        return None
    fitted = None
    if job is not None and job.spec.target in found:
        fitted = Aim(job.spec.target, job.spec.groups, job.spec.time)
    run = None if job is None else job.id
    now = state.aim(dataset.digest, run, fitted)
    key = partial(state.widget, "fit", dataset.digest, None if job is None else job.id)
    options = [_MAP, *found]
    left, middle, right = st.columns([1, 1, 1])
    with left:
        target = st.selectbox(
            "Learn to predict",
            options,
            index=options.index(now.target if now is not None and now.target in found else _MAP),
            format_func=lambda name: shortened(name) if name else "nothing: draw a map",
            key=key("target"),
            help="A column to predict from the others, in place of a map of the rows.",
        )
    aim = None
    if target:
        before = now if now is not None and now.target == target else Aim(target)
        aim = _held_out(dataset, before, key, middle, right)
        _say_unlearned(dataset, {target, aim.groups})
    if aim != now:
        state.set_aim(dataset.digest, run, aim)
    return aim


def _say_unlearned(dataset: Dataset, apart: set[str]) -> None:
    """Say which categories the fit does not learn from, and how it would."""
    names = [name for name in services.unlearned(dataset) if name not in apart]
    if names:
        which = "is a category" if len(names) == 1 else "are categories"
        st.caption(
            f"{markdown(listed(names))} {which} and not learned from. To learn from a category, "
            "choose one-hot as its transform on the Data page: one 0/1 feature a level; a row with "
            "a level that the fit has not seen has none of them."
        )


def _held_out(dataset: Dataset, now: Aim, key: Any, middle: Any, right: Any) -> Aim:
    """Draw which rows a fit to a target leaves out, to be measured on them."""
    if dataset.held_out.any():
        with middle:
            st.caption(
                f"Measured on the {count(int(dataset.held_out.sum()), 'row')} that the Data page "
                "holds out."
            )
        return Aim(now.target)
    kinds: list[_Split] = list(_SPLITS)
    before: _Split = "groups" if now.groups else "time" if now.time else "drawn"
    with middle:
        kind = st.selectbox(
            "Measured on",
            kinds,
            index=kinds.index(before),
            format_func=_SPLITS.__getitem__,
            key=key("split"),
            help="Rows that the fit leaves out, on which its predictions are measured.",
        )
    if kind == "drawn":
        return Aim(now.target)
    columns = _columns(dataset, now.target, by_time=kind == "time")
    with right:
        if not columns:
            what = "dates or numbers" if kind == "time" else "groups"
            st.caption(f"No other column holds {what}: a share of the rows is drawn.")
            return Aim(now.target)
        named = now.time if kind == "time" else now.groups
        column = st.selectbox(
            "By the column",
            columns,
            index=columns.index(named) if named in columns else 0,
            format_func=shortened,
            key=key("split by", kind),
            help="The column that says which rows belong together, or which come last.",
        )
    return Aim(now.target, time=column) if kind == "time" else Aim(now.target, groups=column)


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


# ---- the models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """The models that can be fitted to what is chosen.

    Attributes:
        cards: in the order of the page.
        best: the one to try first.
        refusals: why a model cannot be fitted, None where it can, by its key.
        shape: of the table.
        target: of the column to predict; None for a map.
    """

    cards: Sequence[ModelCard]
    best: Proposal
    refusals: Mapping[str, str | None]
    shape: Shape
    target: TargetShape | None = None

    def suggest(self, card: ModelCard) -> dict[str, Any]:
        """Settings of a model that suit the table."""
        if isinstance(card, TargetCard):
            assert self.target is not None
            return card.suggest(self.target)
        assert isinstance(card, MapCard)
        return card.suggest(self.shape)

    def advice(self, card: ModelCard) -> tuple[str, ...]:
        """Why these differ from the defaults, a sentence each."""
        if isinstance(card, TargetCard):
            assert self.target is not None
            return card.advice(self.target)
        assert isinstance(card, MapCard)
        return card.advice(self.shape)

    def route(self, card: ModelCard, values: Mapping[str, Any]) -> str | None:
        """Which rows a step uses, where there is another way."""
        maps = [one for one in self.cards if isinstance(one, MapCard)]
        return cards.route(maps, card, self.shape, values) if isinstance(card, MapCard) else None


def offered(dataset: Dataset, shape: Shape, aim: Aim | None) -> Offer:
    """The models that can be fitted, those that cannot be with the reason.

    Args:
        dataset: what is fitted to.
        shape: of it.
        aim: the column to predict; None for a map.
    """
    target = None if aim is None else services.target_shape(dataset, aim.target)
    if target is None:
        found = services.cards()
        refusals = {card.key: cards.refusal(card, shape) for card in found}
        return Offer(found, cards.recommend(found, shape), refusals, shape)
    known = sorted(services.target_cards(), key=lambda card: card.task != target.task)
    refused = {card.key: cards.refusal_for_target(card, target) for card in known}
    return Offer(known, cards.recommend_for_target(known, target), refused, shape, target)
