"""Cards of the models in the menus, and the devices of this machine."""

from __future__ import annotations

from app.analysis.tables.model_cards import (
    MapCard,
    ModelCard,
    TargetCard,
    map_card,
    target_card,
)
from app.services.caching import cached
from lvmcore.devices import device_choices, machine_gpus


@cached(spinner="Loading the models", depends_on_store=False)
def cards() -> tuple[MapCard, ...]:
    """Cards of the latent variable models, in the order of the menus (loads torch)."""
    from lvmcore.models import MODELS

    return tuple(map_card(model) for model in MODELS.values())


@cached(spinner="Loading the models", depends_on_store=False)
def target_cards() -> tuple[TargetCard, ...]:
    """Cards of the models of a target, in the order of the menus (loads torch)."""
    from lvmcore.models import PREDICTORS

    return tuple(target_card(model) for model in PREDICTORS.values())


def all_cards() -> dict[str, ModelCard]:
    """The cards of all models by key (loads torch)."""
    return {card.key: card for card in (*cards(), *target_cards())}


@cached(depends_on_store=False)
def devices() -> tuple[str, ...]:
    """Values of the setting ``device`` on this machine."""
    return device_choices(machine_gpus())
