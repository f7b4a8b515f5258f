"""What the page says about each model, and about the table it is given. Pure: no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lvmcore.parameters import Parameter
from lvmcore.runs import proposal
from lvmcore.runs.proposal import Obstacle, Proposal, Shape

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = ["ModelCard", "card_of", "recommend", "refusal", "route"]

#: What to say of a model that a table cannot be given to.
_REFUSALS: dict[Obstacle, str] = {
    "no label": "Needs labels. Choose a label column on the Data page.",
    "one class": "Needs at least two classes, and the label column has one.",
    "one class further": (
        "Needs at least two classes in each label column, and one of the further has one."
    ),
    "few whole rows": (
        "Needs at least two rows with every cell filled in. Leave out the columns that lack most "
        "cells on the Data page."
    ),
    "below 0": (
        "Needs cells of 0 and more, and some are below 0. Leave out such columns on the Data page."
    ),
    "no counts": (
        "Needs counts, and some cells are fractions or above 1,000,000,000. Leave out such "
        "columns, or their log(1 + x), on the Data page."
    ),
}


@dataclass(frozen=True)
class ModelCard:
    """A model as the Fit page presents it.

    Attributes:
        key: the model's key.
        title: its name.
        summary: one line on when to use it.
        paper: where it comes from.
        supports: what it can do, in a few words each.
        needs_labels: whether it cannot be fitted without labels.
        several_labels: whether it learns from several label columns at once.
        missing_labels: whether some labels may be missing.
        missing_cells: whether cells may be missing.
        has_bound: whether there is a curve to watch.
        tells_steps: whether its fit reports its steps while it runs.
        draws: whether those steps are draws from the posterior.
        parameters: metadata of its settings.
        model: its class.
    """

    key: str
    title: str
    summary: str
    paper: str
    supports: tuple[str, ...]
    needs_labels: bool
    several_labels: bool
    missing_labels: bool
    missing_cells: bool
    has_bound: bool
    tells_steps: bool
    draws: bool
    parameters: tuple[Parameter, ...]
    model: type[LatentVariableModel]

    def suggest(self, shape: Shape) -> dict[str, Any]:
        """Settings that suit the table, where they differ from the defaults."""
        return proposal.suggested(self.model, shape)

    def advice(self, shape: Shape) -> tuple[str, ...]:
        """Why settings differ from the defaults for this table, a sentence each."""
        known = {parameter.name: parameter for parameter in self.parameters}
        found = proposal.advised(self.model, shape)
        return tuple(
            f"{known[name].label[:1].upper()}{known[name].label[1:]}: {_told(one.value)} (usually "
            f"{_told(known[name].default)}), as {one.reason}."
            for name, one in found.items()
        )


def _told(value: object) -> str:
    """A setting's value for people."""
    return "auto" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def card_of(model: type[LatentVariableModel]) -> ModelCard:
    """The card of a model, made from what it declares."""
    can = model.capabilities
    supports = {
        "learns from labels": can.labels != "none",
        "several labels": can.several_labels,
        "labels may be missing": can.missing_labels,
        "missing cells": can.missing_cells,
        "places new rows": can.new_rows,
        "decodes any point": can.decoding,
        "uncertainty": can.uncertainty,
        "draws new rows": can.sampling,
    }
    return ModelCard(
        key=model.key,
        title=model.title,
        summary=model.summary,
        paper=model.paper,
        supports=tuple(words for words, supported in supports.items() if supported),
        needs_labels=can.labels == "required",
        several_labels=can.several_labels,
        missing_labels=can.missing_labels,
        missing_cells=can.missing_cells,
        has_bound=can.bound,
        tells_steps=can.steps,
        draws=can.chains,
        parameters=model.parameters(),
        model=model,
    )


def refusal(card: ModelCard, shape: Shape) -> str | None:
    """Why a model cannot be fitted to a table, and what to do; None where it can."""
    found = proposal.obstacle(card.model.capabilities, shape)
    return None if found is None else _REFUSALS[found]


def recommend(cards: Sequence[ModelCard], shape: Shape) -> Proposal:
    """The model to try first on a table, and the reason.

    Args:
        cards: of all models, in the order of menus.
        shape: of the table.
    """
    return proposal.propose(_models(cards), shape)


def route(
    cards: Sequence[ModelCard], chosen: ModelCard, shape: Shape, values: Mapping[str, Any]
) -> str | None:
    """Which rows a step of the chosen model uses, where there is another way; None where not.

    Args:
        cards: of all models.
        chosen: that of the chosen model.
        shape: of the table.
        values: the chosen settings.
    """
    return proposal.route(_models(cards), chosen.key, shape, values.get("batch_size"))


def _models(cards: Sequence[ModelCard]) -> dict[str, type[LatentVariableModel]]:
    return {card.key: card.model for card in cards}
