"""Pictures by the methods that the SRFLVM paper compares with, here few and small."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from lvmcore.bench.harness.report import Options
from lvmcore.models import MODELS


@pytest.fixture
def methods() -> Iterator[ModuleType]:
    from lvmcore.bench.random_features import picture_methods

    picture_methods._accuracies.cache_clear()
    picture_methods._pixel_error.cache_clear()
    yield picture_methods
    picture_methods._accuracies.cache_clear()
    picture_methods._pixel_error.cache_clear()


def test_a_row_for_each_figure_of_the_paper(methods: ModuleType) -> None:
    rows = [maker.args for maker in methods.rows(Options())]
    neighbours = [
        (method, pictures, k)
        for method, sets in methods.PAPER_NEIGHBOURS.items()
        for pictures, figures in sets.items()
        for k in figures
    ]
    assert [args for args in rows if args[1] in methods.SETS] == neighbours
    assert all(args[0] in MODELS for args in rows)
    assert len(rows) == len(neighbours) + 2 * 2 * 4


def test_the_accuracy_of_a_map(methods: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes of pictures far apart: each neighbour is of the row's own class."""
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 30)
    levels = np.where(classes[:, None] == 0, 40, 200) + rng.integers(0, 20, (60, 16))
    monkeypatch.setattr(methods, "load_pictures", lambda _: (levels.astype(np.float32), classes))
    row = methods._accuracy("isomap", "fd-cifar", 2)
    assert row.value == 1
    assert row.reference.startswith("paper 0.270")
    assert row.settings["model"] == "isomap"


def test_the_error_of_hidden_pixels(methods: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures on a plane: hidden pixels are found up to the noise."""
    rng = np.random.default_rng(0)
    X = 0.5 + 0.1 * rng.standard_normal((80, 2)) @ rng.standard_normal((2, 12))
    X += 0.01 * rng.standard_normal(X.shape)
    hidden = rng.random(X.shape) < 0.1
    monkeypatch.setattr(methods, "load_pixels", lambda data, share, seed: (X, hidden))
    row = methods._error("bayesian_gplvm", "brendan_faces", 0.1)
    assert row.unit == "px²"
    assert 0 < row.value < 0.1 * X.var(axis=0).mean()
    whole = methods._error("bayesian_gplvm", "brendan_faces", 0.0)
    assert 0.2 * 0.01**2 < whole.value < 2 * 0.01**2
