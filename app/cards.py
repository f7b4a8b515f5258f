"""What the page says about each model, and about the table it is given. Pure: no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lvmcore.parameters import Parameter
from lvmcore.runs import proposal, target_proposal
from lvmcore.runs.proposal import Obstacle, Proposal, Shape
from lvmcore.runs.target_proposal import TargetShape

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel
    from lvmcore.parameters import Advised
    from lvmcore.predictor import Predictor, Task

__all__ = [
    "MapCard",
    "ModelCard",
    "TargetCard",
    "card_of",
    "recommend",
    "recommend_for_target",
    "refusal",
    "refusal_for_target",
    "route",
    "target_card_of",
]

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
        parameters: metadata of its settings.
    """

    key: str
    title: str
    summary: str
    paper: str
    supports: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    def sentences(self, found: Mapping[str, Advised]) -> tuple[str, ...]:
        """Why settings differ from the defaults for a table, a sentence each."""
        known = {parameter.name: parameter for parameter in self.parameters}
        return tuple(
            f"{known[name].label[:1].upper()}{known[name].label[1:]}: {_told(one.value)} (usually "
            f"{_told(known[name].default)}), as {one.reason}."
            for name, one in found.items()
        )


@dataclass(frozen=True)
class TargetCard(ModelCard):
    """A model of a target as the Fit page presents it.

    Attributes:
        task: what it predicts.
        model: its class.
    """

    task: Task
    model: type[Predictor]

    def suggest(self, shape: TargetShape) -> dict[str, Any]:
        """Settings that suit the target, where they differ from the defaults."""
        return target_proposal.suggested_for_target(self.model, shape)

    def advice(self, shape: TargetShape) -> tuple[str, ...]:
        """Why settings differ from the defaults for this target, a sentence each."""
        return self.sentences(target_proposal.advised_for_target(self.model, shape))


@dataclass(frozen=True)
class MapCard(ModelCard):
    """A model of a map as the Fit page presents it.

    Attributes:
        needs_labels: whether it cannot be fitted without labels.
        several_labels: whether it learns from several label columns at once.
        missing_labels: whether some labels may be missing.
        missing_cells: whether cells may be missing.
        has_bound: whether there is a curve to watch.
        tells_steps: whether its fit reports its steps while it runs.
        draws: whether those steps are draws from the posterior.
        model: its class.
    """

    needs_labels: bool
    several_labels: bool
    missing_labels: bool
    missing_cells: bool
    has_bound: bool
    tells_steps: bool
    draws: bool
    model: type[LatentVariableModel]

    def suggest(self, shape: Shape) -> dict[str, Any]:
        """Settings that suit the table, where they differ from the defaults."""
        return proposal.suggested(self.model, shape)

    def advice(self, shape: Shape) -> tuple[str, ...]:
        """Why settings differ from the defaults for this table, a sentence each."""
        return self.sentences(proposal.advised(self.model, shape))


def _told(value: object) -> str:
    """A setting's value for people."""
    return "auto" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def card_of(model: type[LatentVariableModel]) -> MapCard:
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
    return MapCard(
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


def target_card_of(model: type[Predictor]) -> TargetCard:
    """The card of a model of a target, made from what it declares."""
    numbers = model.task == "number"
    return TargetCard(
        key=model.key,
        title=model.title,
        summary=model.summary,
        paper=model.paper,
        supports=("numbers with intervals",) if numbers else ("classes with probabilities",),
        parameters=model.parameters(),
        task=model.task,
        model=model,
    )


def refusal_for_target(card: TargetCard, shape: TargetShape) -> str | None:
    """Why a model cannot learn a target; None where it can."""
    return target_proposal.target_obstacle(card.task, shape)


def recommend_for_target(cards: Sequence[TargetCard], shape: TargetShape) -> Proposal:
    """The model to try first on a target, and the reason."""
    return target_proposal.propose_for_target({card.key: card.model for card in cards}, shape)


def refusal(card: MapCard, shape: Shape) -> str | None:
    """Why a model cannot be fitted to a table, and what to do; None where it can."""
    found = proposal.obstacle(card.model.capabilities, shape)
    return None if found is None else _REFUSALS[found]


def recommend(cards: Sequence[MapCard], shape: Shape) -> Proposal:
    """The model to try first on a table, and the reason.

    Args:
        cards: of all models, in the order of menus.
        shape: of the table.
    """
    return proposal.propose(_models(cards), shape)


def route(
    cards: Sequence[MapCard], chosen: MapCard, shape: Shape, values: Mapping[str, Any]
) -> str | None:
    """Which rows a step of the chosen model uses, where there is another way; None where not.

    Args:
        cards: of all models.
        chosen: that of the chosen model.
        shape: of the table.
        values: the chosen settings.
    """
    return proposal.route(_models(cards), chosen.key, shape, values.get("batch_size"))


def _models(cards: Sequence[MapCard]) -> dict[str, type[LatentVariableModel]]:
    return {card.key: card.model for card in cards}
