"""The pictures of the long tables."""

import numpy as np
import pytest

from lvmcore.bench.harness.report import Options
from lvmcore.bench.random_features import long_tables


def test_each_number_of_neighbours_has_a_row_and_a_figure_of_the_paper() -> None:
    found = [maker.args for maker in long_tables.rows(Options())]  # type: ignore[attr-defined]
    for classes, pictures in long_tables.CIFAR.items():
        assert [args[1] for args in found if len(args) == 2 and args[0] == classes] == list(
            long_tables.NEIGHBOURS
        )
        assert len(pictures.paper) == len(long_tables.NEIGHBOURS)
    assert len(long_tables.MNIST.paper) == len(long_tables.NEIGHBOURS)


def test_the_classes_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit sees the pictures of five of the ten classes alone, with steps of some rows."""
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(10), 12)
    images = (rng.integers(0, 255, (120, 20, 20)) // 2 + 10 * classes[:, None, None]).astype("u1")
    monkeypatch.setattr(long_tables, "load_paper_images", lambda name: (images, classes))
    pictures = long_tables.CIFAR[5]
    model = long_tables._model(pictures, 3)
    assert (model.batch_size, model.dtype, model.random_state) == (4000, "float32", 3)
    monkeypatch.setattr(
        long_tables, "_model", lambda *args: model.set_params(max_iter=5, n_features=8)
    )
    fit = long_tables._fit(pictures, 3)
    assert len(model.embedding_.mean) == 60
    assert set(fit.accuracy) == set(long_tables.NEIGHBOURS)
    assert all(0 <= value <= 1 for value in fit.accuracy.values())
