"""Files of animations: frames, times, sizes and colours, read back by the libraries."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
import pytest
from av.container import InputContainer
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from lvmcore.errors import UnsupportedError
from lvmcore.export import animation
from lvmcore.export.animation import (
    FRAME,
    LAST,
    FrameSequence,
    animation_file,
    check_animation,
    drawn_frames,
)

Frame = NDArray[np.uint8]
COLOURS = ["#0072B2", "#E69F00", "#009E73"]


def opened(content: bytes) -> InputContainer:
    return av.open(io.BytesIO(content))


def decoded(video: InputContainer) -> list[Frame]:
    """The frames in red, green and blue, [height, width, 3]."""
    frames = video.decode(video=0)
    return [np.asarray(one.to_ndarray(format="rgb24"), dtype=np.uint8) for one in frames]


def plain(height: int, width: int) -> list[Frame]:
    """A frame of each colour, with a white band on the left."""
    frames = []
    for colour in COLOURS:
        frame = np.full((height, width, 3), 255, dtype=np.uint8)
        frame[:, 20:] = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        frames.append(frame)
    return frames


def test_an_mp4_is_h264_that_browsers_play_in_the_colours_of_the_frames() -> None:
    frames = plain(48, 64)
    content = animation_file(FrameSequence(iter(frames), COLOURS), "mp4")
    with opened(content) as video:
        (stream,) = video.streams.video
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert (stream.width, stream.height) == (64, 48)
        assert stream.average_rate == Fraction(1000, FRAME)
        # BT.709 of limited range, which the file states.
        assert (stream.codec_context.colorspace, stream.codec_context.color_range) == (1, 1)
        found = decoded(video)
    assert len(found) == len(frames) + LAST // FRAME - 1
    for shown, drawn in zip([*found[:3], found[-1]], [*frames, frames[-1]], strict=True):
        for part in (np.s_[4:-4, 4:16], np.s_[4:-4, 26:-4]):
            np.testing.assert_allclose(shown[part].astype(int), drawn[part], atol=5)


def test_the_index_of_an_mp4_is_before_its_frames() -> None:
    content = animation_file(FrameSequence(plain(48, 64), COLOURS), "mp4")
    assert 0 < content.index(b"moov") < content.index(b"mdat")


@pytest.mark.parametrize(("height", "width"), [(47, 64), (48, 63), (47, 63)])
def test_odd_sides_get_a_pixel(height: int, width: int) -> None:
    with opened(animation_file(FrameSequence(plain(height, width), COLOURS), "mp4")) as video:
        found = decoded(video)
    assert found[0].shape == (48, 64, 3)
    np.testing.assert_allclose(found[0][-1, -1].astype(int), plain(2, 40)[0][-1, -1], atol=5)


def test_a_gif_repeats_and_holds_its_last_frame() -> None:
    with Image.open(io.BytesIO(animation_file(FrameSequence(plain(9, 31), COLOURS), "gif"))) as gif:
        assert gif.info["loop"] == 0
        assert gif.size == (31, 9)
        for number, expected in enumerate(plain(9, 31)):
            gif.seek(number)
            assert gif.info["duration"] == (LAST if number == 2 else FRAME)
            np.testing.assert_array_equal(np.asarray(gif.convert("RGB")), expected)


def test_the_palette_of_a_gif_has_the_colours_of_pictures_however_rare() -> None:
    shades = np.linspace(0, 255, 256).astype(np.uint8)
    ramp = np.stack([shades, shades[::-1], shades // 2], axis=-1)
    frame = np.concatenate([np.zeros((9, 256, 3), np.uint8), ramp[None]])
    sequence = FrameSequence([frame], COLOURS, frame.reshape(-1, 3))
    with Image.open(io.BytesIO(animation_file(sequence, "gif"))) as gif:
        found = np.asarray(gif.convert("RGB")).astype(int)
    assert np.abs(found[9] - ramp).max() <= 8
    assert (found[:9] == 0).all()


def test_frames_change_where_an_artist_moves_and_nowhere_else() -> None:
    figure = Figure(figsize=(2, 1), dpi=100, layout="constrained")
    plot = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    (point,) = plot.plot([], [], "o", color="#D55E00", markersize=12)
    frames = list(drawn_frames(figure, [point], lambda k: point.set_data([k / 4], [0.5]), 5))
    assert {frame.shape for frame in frames} == {(100, 200, 3)}
    places = []
    for frame in frames[1:4]:
        coloured = np.abs(frame.astype(int) - [0xD5, 0x5E, 0x00]).sum(axis=2) < 9
        places.append(np.nonzero(coloured)[1].mean())
        other = frame.copy()
        low, high = int(places[-1]) - 12, int(places[-1]) + 12
        other[:, low:high] = frames[0][:, low:high]
        assert (other != frames[0]).any(axis=2).sum() < 200  # the point of the first frame
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=1)


def test_a_missing_package_is_said_before_anything_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(animation, "find_spec", lambda name: None)
    assert not animation.writes_mp4()
    check_animation("gif")
    with pytest.raises(UnsupportedError, match=r"pip install 'latentboard\[video\]'"):
        check_animation("mp4")
    with pytest.raises(UnsupportedError, match="package av"):
        animation_file(FrameSequence(iter(()), COLOURS), "mp4")
