"""Every model: a fit leaves nothing in memory but what it is asked to keep."""

import gc
from typing import Any

import numpy as np
import torch

from lvmcore.base.latent_variable_model import LatentVariableModel
from tests.contract.small import fit, for_models, table_for


def live_tensors() -> int:
    gc.collect()
    # Not by isinstance, which would ask an object that only stands for another.
    return sum(issubclass(type(held), torch.Tensor) for held in gc.get_objects())


def iterative(model: type[LatentVariableModel]) -> bool:
    return "max_iter" in {parameter.name for parameter in model.parameters()}


def lasting(key: str, X: Any, y: Any, **settings: Any) -> int:
    """Tensors that nine steps leave in memory beyond those of three."""
    fit(key, X, y, max_iter=3, **settings)
    counts = []
    for steps in (3, 9):
        fit(key, X, y, max_iter=steps, **settings)
        counts.append(live_tensors())
    return counts[1] - counts[0]


@for_models(iterative)
def test_steps_are_freed(key: str) -> None:
    """An autograd function whose context holds its own output keeps the tensors of every step."""
    assert lasting(key, *table_for(key)) <= 0


@for_models(lambda model: iterative(model) and model.capabilities.missing_cells)
def test_steps_with_missing_cells_are_freed(key: str) -> None:
    X, y = table_for(key)
    values = np.array(X, dtype=np.float64)
    values[::7, 1] = np.nan
    assert lasting(key, values, y) <= 0


@for_models(lambda model: "inducing_layout" in {p.name for p in model.parameters()})
def test_steps_with_a_grid_of_inducing_inputs_are_freed(key: str) -> None:
    settings = {"n_components": 2, "n_inducing": 16, "inducing_layout": "grid"}
    assert lasting(key, *table_for(key), **settings) <= 0
