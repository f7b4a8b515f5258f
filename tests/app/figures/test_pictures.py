"""Pictures: colours within the range, hidden pixels, one width a pixel, and the figures of rows."""

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from app.analysis.map.generation import decode_sweep
from app.analysis.map.reconstruction import reconstruct
from app.analysis.tables.hidden_pictures import HiddenPictures, ReconstructedPictures
from app.figures import row_panels
from app.figures.palette import rgb
from app.figures.pictures import (
    channel_note,
    enlarged,
    picture_grid,
    picture_sheet,
)
from app.figures.theme import accent
from app.views.generate import cursor_charts
from app.views.generate.figures import strip_figure
from app.views.impute.picture_figures import picture_figure
from app.views.papers.picture_figures import picture_columns_figure
from lvmcore import VAE, BayesianGPLVM
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset
from lvmcore.export.picture_pixels import picture_colours

HEIGHT, WIDTH = 3, 5
SHAPE = (HEIGHT, WIDTH, 3)
LIMITS = (0.0, 255.0)


def drawn(n: int = 30) -> NDArray[np.float64]:
    """Pictures whose left part is of one colour and whose right part is of another, [n, D]."""
    rng = np.random.default_rng(0)
    x = rng.uniform(100, 120, (n, *SHAPE))
    shade = rng.uniform(0, 1, n)[:, None, None]
    x[:, :, :2, 0] = 255 * shade
    x[:, :, 2:, 2] = 255 * (1 - shade)
    return x.reshape(n, -1)


@pytest.fixture(scope="module", params=[BayesianGPLVM, VAE])
def decoded(request: pytest.FixtureRequest) -> tuple[LatentVariableModel, Dataset]:
    dataset = Dataset.from_arrays(drawn(), image_shape=SHAPE, name="pictures")
    settings = {"n_inducing": 6} if request.param is BayesianGPLVM else {}
    return request.param(n_components=1, max_iter=15, **settings).fit(dataset.X), dataset


def by_hand(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours of a row that is within 0 and 255 after clipping, pixel by pixel."""
    found = np.empty(SHAPE)
    for i in range(HEIGHT):
        for j in range(WIDTH):
            for k in range(3):
                found[i, j, k] = min(max(row[(i * WIDTH + j) * 3 + k], 0), 255)
    return found


@pytest.mark.parametrize("side", [3, 65])
def test_a_sheet_has_a_picture_a_row_at_its_place(side: int) -> None:
    """Rows of one colour each, with a gap in one of them."""
    shape = (side, side + 2)
    cells = np.repeat(np.arange(7.0)[:, None], side * (side + 2), axis=1)
    cells[4] = np.nan
    rows = np.array([6, 4, 2, 1, 0])
    found = picture_sheet(cells, shape, (0.0, 6.0), rows, dark=False)
    step = 1 if side == 3 else 3
    assert (found.height, found.width) == (-(-side // step), -(-(side + 2) // step))
    assert found.columns == 3
    assert found.rows.tolist() == rows.tolist()
    sheet = np.array(Image.open(io.BytesIO(found.content)))
    assert sheet.shape == (2 * found.height, 3 * found.width, 3)
    for place, row in enumerate(rows):
        top, left = place // 3 * found.height, place % 3 * found.width
        picture = sheet[top : top + found.height, left : left + found.width]
        grey = [round(255 * row / 6)] * 3
        expected = np.round(rgb([accent(False)])[0]) if row == 4 else grey
        np.testing.assert_array_equal(picture, np.broadcast_to(expected, picture.shape))


def test_a_large_picture_has_means_of_blocks() -> None:
    cells = np.arange(64.0 * 64).reshape(1, -1)
    found = picture_sheet(cells, (64, 64), (0.0, 64.0 * 64 - 1), np.array([0]), dark=True)
    sheet = np.array(Image.open(io.BytesIO(found.content)))[..., 0]
    whole = picture_colours(cells[0], (64, 64), (0.0, 4095.0), hidden="#000000")[..., 0]
    expected = [
        [whole[i : i + 2, j : j + 2].mean() for j in range(0, 64, 2)] for i in range(0, 64, 2)
    ]
    np.testing.assert_allclose(sheet, expected, atol=0.51)


def test_widths_in_colour_have_a_note() -> None:
    assert channel_note((3, 2)) == ""
    assert "root mean square" in channel_note((1, 2, 3))


def test_pictures_in_a_grid_stand_apart_in_lines_and_columns() -> None:
    rows = np.arange(2 * 3 * 2.0).reshape(2, 3, 2)
    grid = picture_grid(rows, (1, 2), (0.0, 11.0), gap=1, dark=False)
    assert grid.shape == (2 + 1, 3 * 2 + 2, 3)
    shown = (grid[..., 0].astype(int) * 11 / 255).round().astype(int)
    assert shown[0, [0, 1, 3, 4, 6, 7]].tolist() == [0, 1, 2, 3, 4, 5]
    assert shown[2, [0, 1, 3, 4, 6, 7]].tolist() == [6, 7, 8, 9, 10, 11]
    assert (grid[1] == grid[0, 2]).all()  # the colour of the page
    assert enlarged(grid, 16).shape == (6, 16, 3)
    assert enlarged(grid, 3).shape == grid.shape


def test_a_decoded_point_is_a_picture_in_colour(
    decoded: tuple[LatentVariableModel, Dataset],
) -> None:
    model, dataset = decoded
    row = reconstruct(model, dataset, (0.4,))
    found = model.decode(np.array([[0.4]]))
    observed = dataset.X[3].copy()
    observed[4] = np.nan
    figure = row_panels.image_figure(SHAPE, row, observed, LIMITS, dark=False)
    seen, mean, sd = figure.data
    assert [trace.type for trace in figure.data] == ["image", "image", "heatmap"]
    assert [trace.name for trace in figure.data] == ["observed", "reconstruction", "sd"]
    np.testing.assert_allclose(np.asarray(mean.z), by_hand(found.mean[0]), atol=0.51)
    np.testing.assert_allclose(np.asarray(seen.z)[0, 1], rgb([accent(False)])[0], atol=0.51)
    np.testing.assert_allclose(np.asarray(seen.z)[1:], by_hand(dataset.X[3])[1:], atol=0.51)
    np.testing.assert_allclose(mean.customdata, found.mean.reshape(SHAPE), rtol=1e-9)
    variance = found.variance.reshape(HEIGHT, WIDTH, 3)
    np.testing.assert_allclose(sd.z, np.sqrt(variance.mean(-1)), rtol=1e-6)
    image, widths, most = cursor_charts.images(row, SHAPE, LIMITS, dark=True)
    times = image.shape[1] // WIDTH
    assert image.shape == widths.shape == (HEIGHT * times, WIDTH * times, 3)
    np.testing.assert_array_equal(image[::times, ::times], np.asarray(mean.z))
    assert most == pytest.approx(4 * np.sqrt(variance.mean(-1)).max())


def test_a_sweep_is_a_strip_in_colour(decoded: tuple[LatentVariableModel, Dataset]) -> None:
    model, dataset = decoded
    found = decode_sweep(model, dataset, 0, (0.0,), 11)
    figure = strip_figure(found, SHAPE, LIMITS, "latent 1", most=3, dark=True)
    images = [trace for trace in figure.data if trace.type == "image"]
    widths = [trace for trace in figure.data if trace.type == "heatmap"]
    assert len(images) == len(widths) == 3
    for at, trace in zip((0, 5, 10), images, strict=True):
        np.testing.assert_allclose(np.asarray(trace.z), by_hand(found.value[at]), atol=0.51)
    assert [trace.showscale for trace in widths] == [False, False, True]
    assert len({trace.zmax for trace in widths}) == 1
    assert widths[0].zmax == pytest.approx(max(float(trace.z.max()) for trace in widths))


def test_filled_pictures_in_colour_have_one_width_a_pixel() -> None:
    truth = drawn(2)
    truth[0, 0], truth[0, 1] = 0.0, 255.0
    seen, width = truth.copy(), np.zeros_like(truth)
    seen[1, 7], width[1, 7] = np.nan, 30.0
    pictures = HiddenPictures(["<b>1", "2"], truth, seen, truth, width)
    figure = picture_figure(pictures, SHAPE, dark=False)
    assert [trace.type for trace in figure.data] == ["image", "image", "image", "heatmap"] * 2
    hidden = np.asarray(figure.data[5].z)
    np.testing.assert_allclose(hidden[0, 2], rgb([accent(False)])[0], atol=0.51)
    expected = by_hand(truth[1])
    expected[0, 2] = rgb([accent(False)])[0]
    np.testing.assert_allclose(hidden, expected, atol=0.51)
    found = np.zeros((HEIGHT, WIDTH))
    found[0, 2] = 30 / np.sqrt(3)
    np.testing.assert_allclose(figure.data[7].z, found)
    assert figure.data[7].zmax == figure.data[3].zmax == pytest.approx(30 / np.sqrt(3))
    assert figure.data[0].name.startswith("&lt;b&gt;")
    assert not any("<b>" in trace.hovertemplate for trace in figure.data)


def test_grey_pictures_that_are_no_squares_keep_their_rows() -> None:
    truth = np.arange(30.0).reshape(1, 30)
    seen = truth.copy()
    seen[0, 7] = np.nan
    pictures = HiddenPictures(["1"], truth, seen, truth, np.zeros_like(truth))
    figure = picture_figure(pictures, (5, 6), dark=True)
    assert [trace.type for trace in figure.data] == ["heatmap"] * 4
    np.testing.assert_array_equal(figure.data[0].z, truth.reshape(5, 6))
    assert np.argwhere(np.isnan(figure.data[1].z)).tolist() == [[1, 1]]
    assert figure.data[3].zmax == 1.0


def test_reconstructed_pictures_of_a_paper_are_in_colour() -> None:
    truth = drawn(2)
    truth[0, 0], truth[0, 1] = 0.0, 255.0
    seen = truth.copy()
    seen[1, 3] = np.nan
    pictures = ReconstructedPictures(truth, seen, truth)
    canvas = np.asarray(picture_columns_figure(pictures, SHAPE, dark=False).data[0].z)
    assert canvas.shape == (2 * HEIGHT + 2, 3 * WIDTH + 4, 3)
    np.testing.assert_allclose(canvas[:HEIGHT, :WIDTH], by_hand(truth[0]), atol=0.51)
    hidden = canvas[HEIGHT + 2, WIDTH + 2 + 1]
    np.testing.assert_allclose(hidden, rgb([accent(False)])[0], atol=0.51)
