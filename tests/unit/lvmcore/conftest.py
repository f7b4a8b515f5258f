from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import JobSpec, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def toy(rng: np.random.Generator) -> Dataset:
    """Three groups in five columns: 60 labelled rows."""
    centres = np.repeat(3 * rng.standard_normal((3, 5)), 20, axis=0)
    labels = np.repeat(["a", "b", "c"], 20)
    return Dataset.from_arrays(centres + rng.standard_normal((60, 5)), labels, name="toy")


@pytest.fixture
def big(rng: np.random.Generator) -> Dataset:
    """A table on which a Gaussian process model is busy for many seconds."""
    latent = rng.standard_normal((2000, 3))
    X = np.sin(latent @ rng.standard_normal((3, 16))) + 0.1 * rng.standard_normal((2000, 16))
    return Dataset.from_arrays(X, name="big")


Submit = Callable[..., str]


@pytest.fixture
def submit(store: Store) -> Submit:
    """Submits a run of a model on a dataset, with its settings as keywords."""

    def do(dataset: Dataset, model: str = "ppca", **parameters: Any) -> str:
        digest = store.datasets.put(dataset)
        return store.submit(JobSpec(digest, dataset.name, model, parameters))

    return do


@pytest.fixture
def long_fit(submit: Submit, big: Dataset) -> Callable[[], str]:
    """Submits a fit that takes far longer than any test that stops it: each start converges."""
    return lambda: submit(big, "bayesian_gplvm", n_components=5, n_inducing=60, n_restarts=100)


@pytest.fixture
def launch(store: Store) -> Iterator[Callable[..., Launcher]]:
    """Makes launchers on the store, and closes them at the end."""
    made: list[Launcher] = []

    def do(**options: Any) -> Launcher:
        made.append(Launcher(store, **{"spare": False, "slots": 1, **options}))
        return made[-1]

    yield do
    for launcher in made:
        launcher.close()
