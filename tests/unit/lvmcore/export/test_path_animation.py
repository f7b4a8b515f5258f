"""A path as an animation: the point on the map and the decoded row of each frame."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lvmcore.data import Dataset
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.export import animation
from lvmcore.export.animation import FRAME, LAST, drawn_frames
from lvmcore.export.categories import class_style
from lvmcore.export.path_animation import (
    CURVE,
    AnimatedCurve,
    AnimatedPictures,
    curve_figure,
    path_animation,
)
from lvmcore.export.picture_pixels import picture_colours
from tests.unit.lvmcore.export.test_animation import decoded, opened

P, N = 6, 20
RNG = np.random.default_rng(4)
AT = np.linspace(0.0, 2.5, P)


def curve(columns: int = 3, **changes: Any) -> AnimatedCurve:
    """A path over a map of two classes, with values that go up and down."""
    value = np.sin(AT[:, None] + np.arange(columns)) * (1.0 + np.arange(columns))
    rows = RNG.normal(size=(N, 2))
    labels = Dataset.from_arrays(rows, ["left", "$right_"] * (N // 2))
    whole = AnimatedCurve(
        rows=rows,
        points=np.column_stack([np.linspace(-1, 1, P), AT**2 / 4]),
        axes=("latent dimension 1", "latent dimension 2"),
        at=AT,
        title="path length",
        value=value,
        low=value - 0.5,
        high=value + 0.25,
        names=[f"$column_{d}" for d in range(columns)],
        interval="95 % intervals",
        classes=class_style(labels),
        ends=("A", "B"),
    )
    return replace(whole, **changes)


def pictures(shape: Any, limits: tuple[float, float] = (0.0, 1.0)) -> AnimatedCurve:
    pixels = int(np.prod(shape))
    value = np.linspace(0, 1, P)[:, None] * np.linspace(0, 1, pixels)
    return curve(
        pixels,
        value=value,
        low=value - np.linspace(0.1, 0.6, P)[:, None],
        high=value + 0.1,
        pictures=AnimatedPictures(shape, limits),
    )


def gif_frames(content: bytes) -> list[np.ndarray]:
    with Image.open(io.BytesIO(content)) as gif:
        assert gif.format == "GIF"
        found = []
        for number in range(gif.n_frames):  # type: ignore[attr-defined]
            gif.seek(number)
            found.append(np.asarray(gif.convert("RGB")))
    return found


def test_each_frame_has_the_decoded_values_at_its_point() -> None:
    shown = curve()
    figure, (moving, move) = curve_figure(shown)
    left, right = figure.subfigs
    dots = [line for plot in right.axes for line in plot.lines if line.get_marker() == "o"]
    (point,) = [line for line in left.axes[0].lines if line.get_marker() == "o"]
    assert {*dots, point} <= set(moving)
    for number in range(P):
        move(number)
        for d, dot in enumerate(dots):
            np.testing.assert_array_equal(dot.get_xydata(), [[AT[number], shown.value[number, d]]])
        np.testing.assert_array_equal(point.get_xydata(), shown.points[[number]])
        assert left.axes[0].get_title(loc="left") == f"path length: {AT[number]:.3g}"


def test_the_whole_curve_and_its_intervals_are_in_every_frame() -> None:
    shown = curve()
    figure, _ = curve_figure(shown)
    plots = [plot for plot in figure.subfigs[1].axes if plot.get_visible()]
    assert [plot.get_title(loc="left") for plot in plots] == list(shown.names)
    for d, plot in enumerate(plots):
        line = next(one for one in plot.lines if one.get_color() == CURVE)
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([AT, shown.value[:, d]]))
        band = plot.collections[0].get_paths()[0].vertices
        assert band[:, 1].min() == pytest.approx(shown.low[:, d].min())
        assert band[:, 1].max() == pytest.approx(shown.high[:, d].max())


def test_the_dots_of_the_drawn_frames_are_where_the_values_are() -> None:
    """Read from the pixels: the height of the dot is linear in the value of the column."""
    shown = curve(1, classes=None, ends=None)
    frames = gif_frames(path_animation(shown, "gif"))
    assert len(frames) == P
    heights = []
    for frame in frames:
        right = frame[:, 470:].astype(int)
        dark = np.abs(right - [0x1A, 0x1D, 0x21]).sum(axis=2) < 30
        beside = dark[:, np.flatnonzero(dark.sum(axis=0) >= 4)]  # columns of pixels with the dot
        heights.append(np.nonzero(beside[20:430])[0].mean())
    slope, start = np.polyfit(shown.value[:, 0], heights, 1)
    assert slope < 0
    np.testing.assert_allclose(slope * shown.value[:, 0] + start, heights, atol=1.5)


@pytest.mark.parametrize("shape", [(4, 6), (3, 5, 3)])
def test_each_frame_of_pictures_has_the_decoded_picture_and_its_widths(shape: Any) -> None:
    shown = pictures(shape)
    figure, (_, move) = curve_figure(shown)
    above, below = (plot.images[0] for plot in figure.subfigs[1].axes if plot.images)
    for number in range(P):
        move(number)
        expected = picture_colours(shown.value[number], shape, (0.0, 1.0), hidden="#000000")
        np.testing.assert_array_equal(above.get_array(), expected)
        width = float((shown.high - shown.low)[number].mean())
        np.testing.assert_allclose(below.get_array(), np.full(shape[:2], width))
    assert below.get_clim() == (0.0, pytest.approx(float((shown.high - shown.low).max())))


@pytest.mark.parametrize("form", ["gif", "mp4"])
def test_the_pixels_of_the_decoded_pictures_are_in_the_file(form: Any) -> None:
    shown = pictures((4, 6))
    content = path_animation(shown, form)
    if form == "gif":
        frames = gif_frames(content)
        assert len(frames) == P
    else:
        with opened(content) as video:
            frames = decoded(video)
        assert len(frames) == P + LAST // FRAME - 1
    assert frames[0].shape == (480, 1100, 3)
    figure, (moving, move) = curve_figure(shown)
    list(drawn_frames(figure, moving, move, 1))  # lays the axes out
    plot = next(one for one in figure.subfigs[1].axes if one.images)
    for number in range(P):
        for row, column in [(0, 0), (1, 4), (3, 5)]:
            across, up = plot.transData.transform((column, row))
            pixel = frames[number][480 - round(up), round(across)].astype(int)
            value = 255 * shown.value[number].reshape(4, 6)[row, column]
            np.testing.assert_allclose(pixel, value, atol=6)


def test_many_columns_make_a_higher_figure_of_even_sides() -> None:
    with opened(path_animation(curve(24), "mp4")) as video:
        (stream,) = video.streams.video
        assert (stream.width, stream.height) == (1100, 1000)


def test_on_a_map_of_one_dimension_a_line_moves() -> None:
    shown = curve(points=np.linspace(-1, 1, P)[:, None], axes=("latent dimension 1", "row"))
    figure, (moving, move) = curve_figure(shown)
    (line,) = figure.subfigs[0].axes[0].lines
    assert line in moving
    move(3)
    assert set(line.get_xdata()) == {shown.points[3, 0]}


def test_a_path_of_one_point_or_without_columns_is_refused() -> None:
    with pytest.raises(DataError, match="fewer than two points"):
        path_animation(curve(at=AT[:1]), "gif")
    with pytest.raises(DataError, match="choose a column"):
        path_animation(curve(names=[]), "gif")


def test_without_the_package_an_mp4_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(animation, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'latentboard\[video\]'"):
        path_animation(curve(), "mp4")
