"""Every model with a device has the same bound on a GPU as on the processor."""

from typing import Any

import numpy as np
import pytest

from lvmcore.devices import torch_gpus
from lvmcore.models import MODELS, PREDICTORS, REGISTRY
from tests.contract import small, test_predictors

#: Largest relative difference of the bounds, by precision.
CLOSE = {"float64": 1e-8, "float32": 1e-4, "mixed": 1e-4}


def with_precisions() -> list[tuple[str, str]]:
    """The models that compute on a GPU, each with its precisions."""
    return [
        (key, precision)
        for key, model in REGISTRY.declarations.items()
        if model.capabilities.gpu
        for parameter in model.parameters()
        if parameter.name == "dtype"
        for precision in parameter.choices
    ]


def fitted(key: str, **settings: Any) -> Any:
    if key in PREDICTORS:
        model = test_predictors.make(key, **settings, max_iter=5)
        return model.fit(*test_predictors.table(key))
    frame, labels = small.table_for(key)
    return small.fit(key, frame, labels, **settings, **small.few_steps(key))


def figures(key: str, model: Any) -> np.ndarray:
    """The bound; without one the predictions, or the map."""
    if np.isfinite(model.elbo_):
        return np.atleast_1d(model.elbo_)
    if key in MODELS:
        return model.embedding_.mean
    X = test_predictors.table(key)[0]
    return model.predict(X) if model.task == "number" else model.predict_proba(X)


@pytest.mark.gpu
@pytest.mark.parametrize(("key", "precision"), with_precisions())
def test_the_bound_on_a_gpu_is_that_of_the_processor(key: str, precision: str) -> None:
    device = torch_gpus()[0].device
    on_gpu, on_cpu = (fitted(key, device=one, dtype=precision) for one in (device, "cpu"))
    assert on_gpu.computation_.device == device
    assert on_cpu.computation_.device == "cpu"
    found, expected = figures(key, on_gpu), figures(key, on_cpu)
    assert np.abs(found - expected).max() <= CLOSE[precision] * np.abs(expected).max()


def test_models_that_use_a_gpu_are_declared() -> None:
    keys = {key for key, _ in with_precisions()}
    assert {"ldgd", "bayesian_gplvm", "vae", "srflvm", "svgp_regressor", "dsvi_classifier"} <= keys
    assert keys.isdisjoint({"pca", "ppca", "tsne", "umap", "isomap", "nmf", "rflvm"})
    precisions = {
        key: {one for name, one in with_precisions() if name == key}
        for key in ("ldgd", "srflvm", "gp_regressor", "dsvi_regressor")
    }
    assert precisions == {
        "ldgd": {"float64", "float32"},
        "srflvm": {"float64", "float32", "mixed"},
        "gp_regressor": {"float64"},
        "dsvi_regressor": {"float64", "float32", "mixed"},
    }
