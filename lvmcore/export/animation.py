"""Animations: the frames that a figure of matplotlib draws, and their files, GIF or MP4."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import UnsupportedError
from lvmcore.export.map_markers import HAIRLINE, MUTED, TEXT

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

__all__ = [
    "FRAME",
    "LAST",
    "MP4_PACKAGE",
    "AnimationFormat",
    "FrameSequence",
    "animation_file",
    "check_animation",
    "drawn_frames",
    "writes_mp4",
]

AnimationFormat = Literal["gif", "mp4"]

#: Time of a frame and of the last one, milliseconds.
FRAME, LAST = 100, 2500
#: What to do where no MP4 can be written.
MP4_PACKAGE = (
    "MP4 files need the package av: pip install 'latentboard[video]'. GIF needs no other package."
)
#: Colours of a GIF at most, and the mixtures of each colour of a figure with white.
PALETTE, MIXTURES, MIXTURES_BESIDE_PICTURES = 256, 10, 6
#: Constant quality of H.264: 0 is lossless, 23 usual; markers of a few pixels need more than usual.
QUALITY = 16
_BT709, _LIMITED_RANGE = 1, 1  # what players assume: values in ITU-T H.273


@dataclass(frozen=True)
class FrameSequence:
    """The frames of an animation, and the colours that its palette needs.

    Attributes:
        frames: at least one, all of the same size, uint8 [height, width, 3].
        colours: colours of markers, lines and text, "#RRGGBB".
        pictures: colours of the pixels of pictures, uint8 [n, 3]; None without pictures.
    """

    frames: Iterable[NDArray[np.uint8]]
    colours: Sequence[str]
    pictures: NDArray[np.uint8] | None = None


def writes_mp4() -> bool:
    """Whether the package that writes MP4 files is installed."""
    return find_spec("av") is not None


def check_animation(form: AnimationFormat) -> None:
    """Check that a format of animations can be written.

    Raises:
        UnsupportedError: the package that writes it is not installed.
    """
    if form == "mp4" and not writes_mp4():
        raise UnsupportedError(MP4_PACKAGE)


def animation_file(sequence: FrameSequence, form: AnimationFormat) -> bytes:
    """An animation as a file; each frame takes 0.1 s, the last one 2.5 s.

    Args:
        sequence: the frames.
        form: "gif", which repeats, or "mp4" (H.264 in 4:2:0, which browsers play); an MP4 has even
            sides: an odd one repeats its last pixel.

    Raises:
        UnsupportedError: the package that writes it is not installed.
    """
    check_animation(form)
    return _gif(sequence) if form == "gif" else _mp4(sequence)


def drawn_frames(
    figure: Figure, moving: Sequence[Artist], move: Callable[[int], None], count: int
) -> Iterator[NDArray[np.uint8]]:
    """Draw the frames of a figure: what does not move is drawn once.

    Args:
        figure: the figure; its layout stays that of its first drawing.
        moving: the artists that change, drawn above all others in this order.
        move: changes them to those of a frame, by its number from 0.
        count: number of frames.

    Yields:
        The frames, uint8 [height, width, 3].
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)  # has no types
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes stay where they are
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    for number in range(count):
        move(number)
        canvas.restore_region(still)
        for artist in moving:
            figure.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


# ---- GIF -------------------------------------------------------------------------------------


def _gif(sequence: FrameSequence) -> bytes:
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette(sequence))
    frames: list[Image.Image] = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in sequence.frames
    ]
    sink = io.BytesIO()
    frames[0].save(
        sink,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[*[FRAME] * (len(frames) - 1), LAST],
        loop=0,
    )
    return sink.getvalue()


def _palette(sequence: FrameSequence) -> list[int]:
    """The colours of all frames, red, green, blue, and so on: no frame has a palette of its own.

    They are the colours of the figure, each in some mixtures with white, and then colours of the
    pictures' pixels.
    """
    colours = list(dict.fromkeys((*sequence.colours, "#000000", TEXT, MUTED, HAIRLINE)))
    pure = np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in colours])
    mixtures = MIXTURES if sequence.pictures is None else MIXTURES_BESIDE_PICTURES
    share = np.linspace(0.0, 1.0, mixtures)[:, None, None]
    mixed = np.unique(np.round(255 + share * (pure - 255)).reshape(-1, 3), axis=0)
    found: list[int] = mixed[:PALETTE].astype(int).ravel().tolist()
    if sequence.pictures is not None and len(mixed) < PALETTE:
        found += _leading_colours(sequence.pictures, PALETTE - len(mixed))
    return found


def _leading_colours(pixels: NDArray[np.uint8], most: int) -> list[int]:
    """At most so many colours near those of pixels [n, 3], however often each of them occurs."""
    from PIL import Image

    distinct = np.unique(pixels, axis=0)
    found = distinct
    if len(distinct) > most:
        picture = Image.fromarray(distinct[None]).quantize(most, Image.Quantize.MEDIANCUT)
        found = np.asarray(picture.convert("RGB"))[0]
    found = np.unique(found, axis=0)[:most]
    levels: list[int] = found.astype(int).ravel().tolist()
    return levels


# ---- MP4 -------------------------------------------------------------------------------------


def _mp4(sequence: FrameSequence) -> bytes:
    import av
    from av.video.reformatter import ColorRange, Colorspace

    frames = map(_even, _held(sequence.frames))
    first = next(frames)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "animation.mp4"
        # The index is moved to the front of the file, so that a browser plays it while it loads.
        with av.open(path, "w", options={"movflags": "faststart"}) as container:
            stream = container.add_stream(
                "libx264", Fraction(1000, FRAME), {"crf": str(QUALITY), "tune": "animation"}
            )
            stream.height, stream.width = first.shape[:2]
            stream.pix_fmt = "yuv420p"
            stream.color_range, stream.colorspace = _LIMITED_RANGE, _BT709
            stream.color_primaries, stream.color_trc = _BT709, _BT709
            for frame in chain([first], frames):
                picture = av.VideoFrame.from_ndarray(frame, "rgb24").reformat(
                    format="yuv420p",
                    dst_colorspace=Colorspace.ITU709,
                    dst_color_range=ColorRange.MPEG,
                )
                container.mux(stream.encode(picture))
            container.mux(stream.encode())
        return path.read_bytes()


def _held(frames: Iterable[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The frames, the last one as often as its time takes."""
    last: list[NDArray[np.uint8]] = []
    for frame in frames:
        last = [frame]
        yield frame
    yield from last * (LAST // FRAME - 1)


def _even(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A frame of even height and width; H.264 in 4:2:0 has one colour for 2 × 2 pixels."""
    height, width = frame.shape[:2]
    return np.pad(frame, [(0, height % 2), (0, width % 2), (0, 0)], mode="edge")
