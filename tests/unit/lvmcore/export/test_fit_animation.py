"""A fit as an animation: its frames, their order, and what they show."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from lvmcore.data import Dataset
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.export import animation
from lvmcore.export import fit_animation as animation_of_a_fit
from lvmcore.export.animation import FRAME, LAST
from lvmcore.export.categories import class_style
from lvmcore.export.column_colours import OKABE_ITO
from lvmcore.export.fit_animation import fit_animation
from lvmcore.results import FitStep, Snapshot
from tests.unit.lvmcore.export.test_animation import decoded, opened

N = 12


def dataset() -> Dataset:
    return Dataset.from_arrays(np.arange(3.0 * N).reshape(N, 3), ["$a$", "_b"] * (N // 2))


def gif(steps: list[FitStep]) -> bytes:
    return fit_animation(steps, "gif", class_style(dataset()))


def step(number: int, mean: np.ndarray | None, rows: np.ndarray | None = None) -> FitStep:
    rows = np.arange(N) if rows is None else rows
    snapshot = None if mean is None else Snapshot(mean, rows, (0, 1), {})
    return FitStep(number, 100, 0.1 * number, -1000.0 + number, snapshot=snapshot)


def moving(count: int) -> list[FitStep]:
    """All rows of class $a$ go from left to right, those of _b stay; every other step has a map."""
    steps = []
    for number in range(count):
        mean = np.zeros((N, 2))
        mean[::2, 0] = -1 + 2 * number / (count - 1)
        mean[1::2, 1] = 1.0
        steps += [step(2 * number + 1, mean), step(2 * number + 2, None)]
    return steps


def centre(picture: Image.Image, colour: str, near: int = 12) -> float:
    """Mean horizontal position of the pixels of a colour, left of the legend."""
    pixels = np.asarray(picture.convert("RGB")).astype(int)[:, :575]
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    found = np.nonzero(np.abs(pixels - wanted).sum(axis=2) < near)[1]
    assert len(found)
    return float(found.mean())


def pictures(content: bytes) -> tuple[list[Image.Image], list[int]]:
    found, durations = [], []
    with Image.open(io.BytesIO(content)) as found_gif:
        assert found_gif.format == "GIF"
        for n in range(found_gif.n_frames):  # type: ignore[attr-defined]
            found_gif.seek(n)
            durations.append(found_gif.info["duration"])
            found.append(found_gif.convert("RGB"))
    return found, durations


def test_each_map_is_a_picture_and_rows_move_on_axes_that_stay() -> None:
    found, durations = pictures(gif(moving(5)))
    assert [picture.size for picture in found] == [(640, 480)] * 5
    assert durations == [FRAME] * 4 + [LAST]
    across = [centre(picture, OKABE_ITO[0]) for picture in found]
    assert (np.diff(across) > 40).all()
    stays = [centre(picture, OKABE_ITO[1]) for picture in found]
    assert max(stays) - min(stays) < 1


def test_a_long_fit_has_so_many_pictures_and_its_last_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(animation_of_a_fit, "MOST_FRAMES", 4)
    found, _ = pictures(gif(moving(9)))
    assert len(found) == 4
    last, _ = pictures(gif(moving(2)))
    assert centre(found[-1], OKABE_ITO[0]) == pytest.approx(centre(last[-1], OKABE_ITO[0]), abs=1)


def test_rows_that_a_map_leaves_out_are_not_drawn() -> None:
    some = np.array([1, 3])
    steps = [step(1, np.ones((2, 2)), some), step(2, np.full((2, 2), 2.0), some)]
    found, _ = pictures(gif(steps))
    with pytest.raises(AssertionError):
        centre(found[0], OKABE_ITO[0])
    assert centre(found[1], OKABE_ITO[1]) > centre(found[0], OKABE_ITO[1])


def test_a_fit_without_maps_is_refused() -> None:
    with pytest.raises(DataError, match="fewer than two maps"):
        gif([step(1, np.zeros((N, 2))), step(2, None)])


def test_an_mp4_has_the_frames_of_the_gif() -> None:
    steps = moving(5)
    found, _ = pictures(gif(steps))
    with opened(fit_animation(steps, "mp4", class_style(dataset()))) as video:
        frames = decoded(video)
    assert len(frames) == 5 + LAST // FRAME - 1
    for frame, picture in zip(frames, found, strict=False):
        shown = Image.fromarray(frame)
        assert shown.size == (640, 480)
        for colour in OKABE_ITO[:2]:
            assert centre(shown, colour, 60) == pytest.approx(centre(picture, colour), abs=1)


def test_without_the_package_an_mp4_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(animation, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'latentboard\[video\]'"):
        fit_animation(moving(2), "mp4")
    assert fit_animation(moving(2), "gif").startswith(b"GIF89a")
