"""The graphical model of each model of the menus."""

from __future__ import annotations

from app.analysis.graphical_models.graphical_model import GraphicalModel
from app.analysis.graphical_models.map_families import MAP_FAMILIES
from app.analysis.graphical_models.target_families import TARGET_FAMILIES

__all__ = ["FAMILIES", "graphical_model"]

#: Graphical models by the keys of their models, with spaces between them.
FAMILIES = (*MAP_FAMILIES, *TARGET_FAMILIES)
_BY_KEY = {key: model for keys, model in FAMILIES for key in keys.split()}


def graphical_model(key: str) -> GraphicalModel:
    """The graphical model of a model; a regressor and a classifier of a family share it.

    Raises:
        KeyError: no family has a model with this key.
    """
    return _BY_KEY[key.removesuffix("_regressor").removesuffix("_classifier")]
