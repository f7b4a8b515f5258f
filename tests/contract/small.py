"""Every model in MODELS, a small table to fit it to, and one fit of each to share."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.models import MODELS

__all__ = [
    "N_COLUMNS",
    "N_COMPONENTS",
    "N_ROWS",
    "few_steps",
    "fit",
    "fitted",
    "fitted_to_array",
    "for_models",
    "make",
    "most_components",
    "sparse",
    "table",
    "table_for",
]

N_ROWS, N_COLUMNS, N_COMPONENTS = 30, 5, 2


def make(key: str, **settings: Any) -> LatentVariableModel:
    """A model with settings that fit in a fraction of a second, of those that it has."""
    model = MODELS[key]
    wanted = {"n_components": N_COMPONENTS, "n_inducing": 8, "max_iter": 30}
    wanted |= {"n_neighbors": 10, "perplexity": 5.0}
    known = {p.name: wanted[p.name] for p in model.parameters() if p.name in wanted}
    return model(**known | settings)


def fit(key: str, X: Any, y: Any = None, **settings: Any) -> LatentVariableModel:
    """Fit the model to a table of the test's own, with labels only where it uses them."""
    if MODELS[key].capabilities.labels == "none":
        y = None
    elif y is None:
        y = ["one", "two"] * (len(X) // 2) + ["two"] * (len(X) % 2)
    return make(key, **settings).fit(X, y)


def table(seed: int = 0) -> tuple[pd.DataFrame, list[str]]:
    """Rows about three centres, in columns with names and units of their own, and their classes."""
    rng = np.random.default_rng(seed)
    codes = np.arange(N_ROWS) % 3
    centres = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
    latent = centres[codes] + 0.3 * rng.normal(size=(N_ROWS, 2))
    maps = np.random.default_rng(99).normal(size=(2, 2, N_COLUMNS))
    values = 0.5 * latent @ maps[0] + np.tanh(latent @ maps[1])
    values += 0.1 * rng.normal(size=values.shape)
    values = values * np.array([1, 10, 0.01, 3, 100]) + np.array([0, 5, 1, -20, 1000])
    frame = pd.DataFrame(values, columns=[f"column {name}" for name in "abcde"])
    return frame, [f"class {code}" for code in codes]


def counts(seed: int = 0) -> tuple[pd.DataFrame, list[str]]:
    """Counts of three classes on the way from one profile to another, and their classes."""
    rng = np.random.default_rng(seed)
    codes = np.arange(N_ROWS) % 3
    share = 0.5 * codes + 0.02 * rng.normal(size=N_ROWS)
    profiles = np.array([[60.0, 60.0, 200.0, 75.0, 300.0], [20.0, 190.0, 70.0, 330.0, 85.0]])
    rates = profiles[0] + share[:, None].clip(0, 1) * (profiles[1] - profiles[0])
    columns = [f"column {name}" for name in "abcde"]
    drawn = pd.DataFrame(rng.poisson(rates).astype(float), columns=columns)
    return drawn, [f"class {code}" for code in codes]


def table_for(key: str, seed: int = 0) -> tuple[pd.DataFrame, list[str]]:
    """``table()``, or ``counts()`` for a model that takes nothing below 0."""
    return table(seed) if MODELS[key].capabilities.cells == "any" else counts(seed)


@cache
def fitted(key: str) -> LatentVariableModel:
    """The model fitted to ``table_for(key)``; shared, so leave it as it is."""
    return fit(key, *table_for(key))


@cache
def fitted_to_array(key: str) -> LatentVariableModel:
    """The model fitted to the cells of ``table_for(key)`` without names; leave it as it is."""
    frame, labels = table_for(key)
    return fit(key, frame.to_numpy(), labels)


def sparse(key: str) -> dict[str, str]:
    """Settings with which a model has inducing inputs, where that is a choice."""
    chosen = "approximation" in {p.name for p in MODELS[key].parameters()}
    return {"approximation": "vfe"} if chosen else {}


def few_steps(key: str) -> dict[str, int]:
    """Settings of a fit that need not converge, such as one that is compared with its equal."""
    return {"max_iter": 5} if "max_iter" in {p.name for p in MODELS[key].parameters()} else {}


def most_components(model: type[LatentVariableModel]) -> float:
    """The most dimensions that a model's declaration allows."""
    declared = next(p for p in model.parameters() if p.name == "n_components")
    return declared.high or 0.0


def for_models(
    wanted: Callable[[type[LatentVariableModel]], bool] = lambda model: True,
) -> pytest.MarkDecorator:
    """Parametrise ``key`` by the models for which ``wanted`` holds."""
    return pytest.mark.parametrize("key", [k for k, model in MODELS.items() if wanted(model)])
