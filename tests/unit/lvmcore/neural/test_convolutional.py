"""Networks of pictures: the pixels are where they belong, the start is a line, the rest learns."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from lvmcore import DeepKernelGPClassifier, DeepKernelQEPClassifier
from lvmcore.errors import ConfigError, DataError
from lvmcore.models import load
from lvmcore.neural.convolutional import ConvolutionalNetwork, PixelScaling
from lvmcore.preprocessing.picture_shape import check_picture_shape, picture_shape
from lvmcore.preprocessing.standardiser import Standardiser


def pictures(n: int = 40, side: int = 9) -> NDArray[np.float64]:
    """Grey pictures whose first row of pixels is always dark."""
    drawn = np.random.default_rng(0).gamma(2.0, 30.0, (n, side, side))
    drawn[:, 0] = 0
    return drawn.reshape(n, -1)


def made(data: NDArray[np.float64], U: int = 3) -> tuple[ConvolutionalNetwork, torch.Tensor]:
    names = [f"pixel{i}" for i in range(data.shape[1])]
    standardiser = Standardiser.fit(data, names)
    X = torch.as_tensor(standardiser.transform(data))
    pixels = PixelScaling(standardiser, X)
    return ConvolutionalNetwork(pixels, 11, U, X, torch.Generator().manual_seed(1)), X


def test_pixels_are_put_back_where_they_were() -> None:
    data = pictures()
    network, X = made(data)
    shown = network.pixels(X)
    assert shown.shape == (40, 1, 9, 9)
    expected = (data - data.mean()) / data.std()
    np.testing.assert_allclose(shown.reshape(40, -1).numpy(), expected, atol=1e-5)


def test_channels_of_a_pixel_stand_side_by_side_and_pictures_need_not_be_square() -> None:
    drawn = np.random.default_rng(1).gamma(2.0, 30.0, (20, 8, 12, 3))
    data = drawn.reshape(20, -1)
    standardiser = Standardiser.fit(data, [f"pixel{i}" for i in range(data.shape[1])])
    X = torch.as_tensor(standardiser.transform(data))
    pixels = PixelScaling(standardiser, X, "8x12x3")
    expected = np.moveaxis((drawn - data.mean()) / data.std(), 3, 1)
    np.testing.assert_allclose(pixels(X).numpy(), expected, atol=1e-5)
    network = ConvolutionalNetwork(pixels, 7, 2, X, torch.Generator().manual_seed(0))
    assert network(X).shape == (20, 2)


@pytest.mark.slow
def test_a_class_that_only_a_colour_tells_is_learned_from_pictures_in_colour(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((300, 9, 11, 3))
    y = rng.integers(0, 2, 300)
    row, column = rng.integers(0, 6, 300), rng.integers(0, 8, 300)
    for n in range(300):  # a bright square in red or in blue, anywhere
        X[n, row[n] : row[n] + 3, column[n] : column[n] + 3, 2 * y[n]] += 1.5
    X = X.reshape(300, -1)
    settings = {"network": "pictures", "picture_shape": "9x11x3", "n_hidden": 16}
    model = DeepKernelGPClassifier(**settings, max_iter=80, n_inducing=20, weight_scale=1.0)
    model.fit(X[:220], y[:220])
    assert model.score(X[220:], y[220:]) > 0.9
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", "target")
    np.testing.assert_array_equal(again.predict_proba(X[:9]), model.predict_proba(X[:9]))


def test_its_features_start_at_unit_variance() -> None:
    network, X = made(pictures())
    network.start(X)
    features = network(X).detach()
    torch.testing.assert_close(features.mean(0), torch.zeros(3).to(X), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.std(0, correction=0), torch.ones(3).to(X))


def test_slopes_are_those_of_the_features() -> None:
    network, X = made(pictures(6))
    draws = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=X.dtype, generator=draws))
    found = network.slopes(X[:2])
    assert found.shape == (2, X.shape[1], 3)
    for column in (0, 17, X.shape[1] - 1):
        step = torch.zeros_like(X[:2])
        step[:, column] = 1e-2
        with torch.no_grad():
            away = (network(X[:2] + step) - network(X[:2] - step)) / 2e-2
        torch.testing.assert_close(found[:, column], away, atol=5e-2, rtol=5e-2)


def test_a_picture_that_is_moved_by_a_pixel_is_seen_as_such() -> None:
    # What tells a convolution from any network of columns: a blot's effect moves along with it.
    network, _ = made(pictures(40, 16))
    blot = torch.zeros(2, 1, 16, 16)
    blot[0, 0, 5, 5], blot[1, 0, 7, 7] = 1, 1
    with torch.no_grad():
        seen = network.first(blot)
    torch.testing.assert_close(seen[0, :, 1:5, 1:5], seen[1, :, 2:6, 2:6])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DeepKernelGPClassifier, DeepKernelQEPClassifier])
def test_digits_are_told_apart_and_read_back(
    kind: type[DeepKernelGPClassifier | DeepKernelQEPClassifier], tmp_path: Path
) -> None:
    X, y = load_digits(return_X_y=True)
    model = kind(
        network="pictures", n_inducing=20, n_hidden=16, max_iter=60, validation=0, weight_scale=1.0
    )
    model.fit(X[:600], y[:600])
    assert model.score(X[600:1000], y[600:1000]) > 0.9
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", "target")
    np.testing.assert_array_equal(again.predict_proba(X[600:650]), model.predict_proba(X[600:650]))
    assert again.relevance_["layer1"].shape == model.relevance_["layer1"].shape


@pytest.mark.parametrize("columns", [10, 49])
def test_columns_that_make_no_picture_are_refused(columns: int) -> None:
    X = np.random.default_rng(0).standard_normal((30, columns))
    with pytest.raises(DataError, match=f"The table's {columns} columns make no square picture"):
        DeepKernelGPClassifier(network="pictures").fit(X, X[:, 0] > 0)


def test_squares_are_recognised_in_grey_and_in_colour() -> None:
    assert picture_shape(784, "auto") == (28, 28, 1)
    assert picture_shape(3072, "auto") == (32, 32, 3)
    assert picture_shape(96, " 8 x 12 ") == (8, 12, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("28", "no shape of pictures"),
        ("28x28x3x1", "no shape of pictures"),
        ("wide", "no shape of pictures"),
        ("-8x8", "no shape of pictures"),
        ("7x20", "at least 8 x 8 pixels"),
    ],
)
def test_a_text_that_is_no_shape_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_picture_shape(text)


def test_another_number_of_columns_than_the_shape_has_is_said() -> None:
    with pytest.raises(DataError, match="has 100 columns, and pictures of 8x12 have 96"):
        picture_shape(100, "8x12")
