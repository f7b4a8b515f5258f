"""Pictures in colour from a file to the network: the class is only in the colour."""

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from lvmcore import CNNClassifier, DeepKernelGPClassifier, load
from lvmcore.base.table_size import TableSize
from lvmcore.data import Dataset, Table, read_table
from lvmcore.errors import DataError
from lvmcore.prediction.target_rows import target_features
from lvmcore.preprocessing.picture_shape import picture_shape, pixel_names
from lvmcore.recommend.target_models import suggested_target_settings, summarise_target

HEIGHT, WIDTH = 8, 12
FITTED = 220
QUICK = {"n_hidden": 16, "max_iter": 120}


@cache
def discs(n: int = 300) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Squares anywhere, red or blue; the mean of the channels is the same for both."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    grey = rng.integers(0, 60, (n, HEIGHT, WIDTH))
    x = np.repeat(grey[..., None], 3, axis=-1)
    row, column = rng.integers(0, HEIGHT - 3, n), rng.integers(0, WIDTH - 3, n)
    for i in range(n):
        x[i, row[i] : row[i] + 3, column[i] : column[i] + 3, 2 * y[i]] += 180
    return x.astype(np.uint8), np.array(["red", "blue"])[y]


def dataset(x: NDArray[Any]) -> Dataset:
    content = io.BytesIO()
    np.savez_compressed(content, x=x, y=discs()[1])
    return read_table(content.getvalue()).dataset(label="y")


def frame(found: Dataset) -> pd.DataFrame:
    return pd.DataFrame(found.X, columns=list(found.transformed_names))


def accuracy(found: Dataset, **settings: Any) -> tuple[float, CNNClassifier]:
    X, y = frame(found), found.labels
    assert y is not None
    model = CNNClassifier(**{**QUICK, **settings}).fit(X[:FITTED], y[:FITTED])
    return model.score(X[FITTED:], y[FITTED:]), model


def test_a_class_that_only_the_colour_tells_is_learned_in_colour_alone(tmp_path: Path) -> None:
    in_colour = dataset(discs()[0])
    score, model = accuracy(in_colour)
    assert model._function.state()[1]["picture"] == [HEIGHT, WIDTH, 3]
    assert score > 0.9
    grey, of_means = accuracy(dataset(discs()[0].mean(axis=-1).round(6)))
    assert of_means._function.state()[1]["picture"] == [HEIGHT, WIDTH, 1]
    assert grey < 0.7
    model.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors", "target")
    X = frame(in_colour)[:20]
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_names_of_the_columns_say_what_their_number_does_not() -> None:
    assert picture_shape(576, "auto") == (24, 24, 1)
    assert picture_shape(576, "auto", pixel_names((12, 16, 3))) == (12, 16, 3)
    assert picture_shape(576, "auto", pixel_names((18, 32))) == (18, 32, 1)
    assert picture_shape(576, "18x32", pixel_names((12, 16, 3))) == (18, 32, 1)
    assert picture_shape(4880, "auto", pixel_names((61, 80))) == (61, 80, 1)
    assert picture_shape(576, "auto", ["x"] * 576) == (24, 24, 1)
    with pytest.raises(DataError, match="pictures have 4 x 16 pixels"):
        picture_shape(64, "auto", pixel_names((4, 16)))


def test_advice_has_the_shape_of_the_pictures() -> None:
    size = TableSize(n_rows=100, n_columns=576, image_shape=(12, 16, 3))
    advice = CNNClassifier.advise(size)
    assert advice["network"].reason == "576 columns make pictures of 12 × 16 in colour"
    assert advice["picture_shape"].value == "12x16x3"
    square = TableSize(n_rows=100, n_columns=3072, image_shape=(32, 32, 3))
    assert CNNClassifier.suggest(square) == {"network": "pictures"}
    small = TableSize(n_rows=100, n_columns=64, image_shape=(4, 16))
    assert CNNClassifier.suggest(small) == {"network": "columns"}


def test_pictures_with_other_names_reach_the_network_by_the_advice() -> None:
    x, y = discs()
    names = [f"v{i}" for i in range(HEIGHT * WIDTH * 3)]
    named = Dataset.from_arrays(
        x.reshape(len(x), -1), y, names, image_shape=(HEIGHT, WIDTH, 3), label_name="colour"
    )
    summary = summarise_target(named, "colour")
    assert summary is not None
    assert summary.image_shape == (HEIGHT, WIDTH, 3)
    settings = suggested_target_settings(CNNClassifier, summary)
    assert settings == {"network": "pictures", "picture_shape": f"{HEIGHT}x{WIDTH}x3"}
    _, model = accuracy(named, **settings, max_iter=1)
    assert model._function.state()[1]["picture"] == [HEIGHT, WIDTH, 3]
    of_pixel = summarise_target(named, "v0")
    assert of_pixel is not None
    assert of_pixel.image_shape is None


def test_a_target_among_the_columns_and_empty_columns_are_no_pixels() -> None:
    x, y = discs()
    table = pd.DataFrame(x.reshape(len(x), -1)[:30], columns=pixel_names((HEIGHT, WIDTH, 3)))
    numbers = (y[:30] == "red").astype(float)
    whole = Table.from_frame(table.assign(kind=numbers, other=np.arange(30.0)))
    mixed = whole.dataset(features=[*table.columns, "kind", "other"])
    assert mixed.image_shape is None
    summary = summarise_target(mixed, "kind")
    assert summary is not None
    assert summary.image_shape is None
    X = np.column_stack([table, np.full(30, np.nan), numbers])
    gappy = Dataset.from_arrays(X, None, [*table.columns, "empty", "kind"])
    summary = summarise_target(gappy, "kind")
    assert summary is not None
    assert summary.image_shape == (HEIGHT, WIDTH, 3)
    rows = target_features(gappy, "kind")
    assert rows.image_shape is None
    assert rows.complete_rows().image_shape == (HEIGHT, WIDTH, 3)


def test_a_deep_kernel_keeps_the_shape_that_it_was_fitted_with(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((40, 18 * 32)), columns=pixel_names((18, 32)))
    y = (X.mean(axis=1) > 0.5).to_numpy()
    settings: dict[str, Any] = {"network": "pictures", "n_hidden": 4, "max_iter": 2}
    model = DeepKernelGPClassifier(**settings, n_inducing=5, validation=0.0).fit(X, y)
    assert model._function.state()[1]["picture"] == [18, 32, 1]
    model.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors", "target")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_deep_kernel_of_an_earlier_version_keeps_its_square() -> None:
    """Earlier versions took 18 x 32 pixels for 24 x 24, and stored no shape."""
    rng = np.random.default_rng(0)
    plain = rng.random((40, 18 * 32))
    y = plain.mean(axis=1) > 0.5
    settings: dict[str, Any] = {"network": "pictures", "n_hidden": 4, "max_iter": 2}
    model = DeepKernelGPClassifier(**settings, n_inducing=5, validation=0.0).fit(plain, y)
    arrays, facts = model._function.state()
    assert facts.pop("picture") == [24, 24, 1]
    expected = model.predict_proba(plain)
    model.feature_names_in_ = np.array(pixel_names((18, 32)), dtype=object)
    model._measured = type(model._measured)(
        model._measured.mean,
        model._measured.scale,
        model._measured.constant,
        tuple(pixel_names((18, 32))),
    )
    model._standardiser = model._scaling(model._measured)
    model._function = model.method.restore(model, arrays, facts)
    found = model.predict_proba(pd.DataFrame(plain, columns=pixel_names((18, 32))))
    np.testing.assert_array_equal(found, expected)
