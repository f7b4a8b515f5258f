"""Cards of models for the Fit page, with advice for a table. Pure: no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lvmcore.parameters import Parameter
from lvmcore.recommend import latent_models, target_models
from lvmcore.recommend.latent_models import Obstacle, Proposal, TableSummary
from lvmcore.recommend.target_models import TargetSummary

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor, Task
    from lvmcore.parameters import Advised

__all__ = [
    "MapCard",
    "ModelCard",
    "TargetCard",
    "distinguishing_traits",
    "map_card",
    "recommend",
    "recommend_for_target",
    "refusal",
    "refusal_for_target",
    "route",
    "target_card",
]

#: Likelihoods of the setting of that name that are of counts.
_COUNT_LIKELIHOODS = ("poisson", "negative_binomial")

#: Message for each reason why a model cannot be fitted to a table.
_REFUSALS: dict[Obstacle, str] = {
    "no label": "Needs labels. Choose a label column on the Data page.",
    "one class": "Needs at least two classes, and the label column has one.",
    "one class further": (
        "Needs at least two classes in each label column, and another label column has one."
    ),
    "few whole rows": (
        "Needs at least two rows without missing cells. Leave out the columns with most missing "
        "cells on the Data page."
    ),
    "on disk": (
        "Needs all rows in memory, and the files of this table stay on disk. Fast LDGD and the "
        "stochastic Bayesian GPLVM read them by mini-batches."
    ),
    "below 0": (
        "Needs cells of 0 or more, and some are below 0. Leave out such columns on the Data page."
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
        paper: its paper.
        supports: its capabilities, in a few words each.
        parameters: metadata of its settings that have a choice.
    """

    key: str
    title: str
    summary: str
    paper: str
    supports: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def line(self) -> str:
        """Name and summary, as one option of a list that is searched by its text."""
        return f"{self.title}: {self.summary}"

    def sentences(self, found: Mapping[str, Advised]) -> tuple[str, ...]:
        """Reasons for advised settings, a sentence each."""
        known = {parameter.name: parameter for parameter in self.parameters}
        sentences = []
        for name, one in found.items():
            setting = known[name]
            usual = (
                "" if setting.default is None else f" (default {_setting_text(setting.default)})"
            )
            label = f"{setting.label[:1].upper()}{setting.label[1:]}"
            sentences.append(f"{label}: {_setting_text(one.value)}{usual}, as {one.reason}.")
        return tuple(sentences)


@dataclass(frozen=True)
class TargetCard(ModelCard):
    """A model that predicts a target, as the Fit page presents it.

    Attributes:
        task: the kind of target.
        model: its class.
    """

    task: Task
    model: type[Predictor]

    def suggest(self, shape: TargetSummary) -> dict[str, Any]:
        """Suggested settings for the target that differ from the defaults."""
        return target_models.suggested_target_settings(self.model, shape)

    def advice(self, shape: TargetSummary) -> tuple[str, ...]:
        """Reasons for the suggested settings of a target, a sentence each."""
        return self.sentences(target_models.advised_target_settings(self.model, shape))


@dataclass(frozen=True)
class MapCard(ModelCard):
    """A latent variable model as the Fit page presents it.

    Attributes:
        needs_labels: whether it requires labels.
        several_labels: whether it learns from several label columns at once.
        missing_labels: whether labels may be missing.
        missing_cells: whether cells may be missing.
        has_bound: whether its fit has a bound.
        tells_steps: whether its fit reports its steps while it runs.
        draws: whether the steps are draws from the posterior.
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

    def suggest(self, shape: TableSummary) -> dict[str, Any]:
        """Suggested settings for the table that differ from the defaults."""
        return latent_models.suggested_settings(self.model, shape)

    def advice(self, shape: TableSummary) -> tuple[str, ...]:
        """Reasons for the suggested settings of a table, a sentence each."""
        return self.sentences(latent_models.advised_settings(self.model, shape))


def _setting_text(value: object) -> str:
    """The value of a setting as text."""
    return "auto" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def map_card(model: type[LatentVariableModel]) -> MapCard:
    """The card of a model, from its declared capabilities."""
    can = model.capabilities
    supports = {
        "learns from labels": can.labels != "none",
        "works without labels": can.labels == "none",
        "several labels": can.several_labels,
        "labels may be missing": can.missing_labels,
        "missing cells": can.missing_cells,
        "counts": _fits_counts(model),
        "large tables": _suits_large_tables(model),
        "new rows": can.new_rows,
        "decodes any latent point": can.decoding,
        "uncertainty": can.uncertainty,
        "samples rows": can.sampling,
    }
    return MapCard(
        key=model.key,
        title=model.title,
        summary=model.summary,
        paper=model.paper,
        supports=tuple(name for name, supported in supports.items() if supported),
        needs_labels=can.labels == "required",
        several_labels=can.several_labels,
        missing_labels=can.missing_labels,
        missing_cells=can.missing_cells,
        has_bound=can.bound,
        tells_steps=can.steps,
        draws=can.chains,
        parameters=_shown_parameters(model),
        model=model,
    )


def _shown_parameters(model: type[LatentVariableModel | Predictor]) -> tuple[Parameter, ...]:
    """The settings with a choice: no device of a model on the CPU, and none of a single value."""
    gpu = model.capabilities.gpu
    return tuple(
        parameter
        for parameter in model.parameters()
        if (gpu or parameter.name != "device") and len(parameter.choices) != 1
    )


def _fits_counts(model: type[LatentVariableModel]) -> bool:
    """Whether a model is of counts, or has a likelihood of counts among its settings."""
    choices = {name for p in model.parameters() if p.name == "likelihood" for name in p.choices}
    return model.capabilities.cells == "counts" or not choices.isdisjoint(_COUNT_LIKELIHOODS)


def _suits_large_tables(model: type[LatentVariableModel]) -> bool:
    """Whether a step uses some rows at a time, or the map of all is a closed form."""
    names = {parameter.name for parameter in model.parameters()}
    return "batch_size" in names or (model.capabilities.steps and "max_iter" not in names)


def target_card(model: type[Predictor]) -> TargetCard:
    """The card of a model that predicts a target."""
    numbers = model.task == "number"
    return TargetCard(
        key=model.key,
        title=model.title,
        summary=model.summary,
        paper=model.paper,
        supports=("numbers with intervals",) if numbers else ("classes with probabilities",),
        parameters=_shown_parameters(model),
        task=model.task,
        model=model,
    )


def distinguishing_traits(cards: Sequence[ModelCard]) -> tuple[str, ...]:
    """What some of the cards support and others do not, in the order of the first card with it."""
    found = dict.fromkeys(trait for card in cards for trait in card.supports)
    return tuple(trait for trait in found if not all(trait in card.supports for card in cards))


def refusal_for_target(card: TargetCard, shape: TargetSummary) -> str | None:
    """Why a model cannot learn a target; None if it can."""
    return target_models.target_obstacle(card.model, shape)


def recommend_for_target(cards: Sequence[TargetCard], shape: TargetSummary) -> Proposal:
    """The model to try first on a target, and the reason."""
    return target_models.propose_for_target({card.key: card.model for card in cards}, shape)


def refusal(card: MapCard, shape: TableSummary) -> str | None:
    """Why a model cannot be fitted to a table, and what to do; None if it can."""
    found = latent_models.obstacle(card.model.capabilities, shape)
    return None if found is None else _REFUSALS[found]


def recommend(cards: Sequence[MapCard], shape: TableSummary) -> Proposal:
    """The model to try first on a table, and the reason.

    Args:
        cards: cards of all models, in the order of the menus.
        shape: summary of the table.
    """
    return latent_models.propose(_models(cards), shape)


def route(
    cards: Sequence[MapCard], chosen: MapCard, shape: TableSummary, values: Mapping[str, Any]
) -> str | None:
    """Which rows a step of the chosen model uses; None if there is no alternative.

    Args:
        cards: cards of all models.
        chosen: card of the chosen model.
        shape: summary of the table.
        values: the chosen settings.
    """
    return latent_models.route(_models(cards), chosen.key, shape, values.get("batch_size"))


def _models(cards: Sequence[MapCard]) -> dict[str, type[LatentVariableModel]]:
    return {card.key: card.model for card in cards}
