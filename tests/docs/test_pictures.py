"""The README's pictures are small enough, and look like what was taken."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.e2e import pictures


def _png(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def test_a_small_picture_keeps_all_of_its_colours() -> None:
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[:, :, 0], pixels[:, :, 1] = np.arange(60), np.arange(40)[:, None]
    found = Image.open(io.BytesIO(pictures.small(_png(pixels)))).convert("RGB")
    np.testing.assert_array_equal(np.asarray(found), pixels)


def test_a_large_picture_gets_a_palette(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BYTES", 6000)
    rng = np.random.default_rng(0)
    pixels = np.repeat(rng.integers(0, 255, size=(8, 100, 3), dtype=np.uint8), 12, axis=0)
    noisy = pixels + rng.integers(0, 3, size=pixels.shape, dtype=np.uint8)
    assert len(_png(noisy)) > 6000
    content = pictures.small(_png(noisy))
    assert len(content) <= 6000
    found = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(float)
    assert np.abs(found - noisy).mean() < 40


def test_a_picture_that_no_palette_makes_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BYTES", 100)
    pixels = np.random.default_rng(0).integers(0, 255, size=(64, 64, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match="more than 100"):
        pictures.small(_png(pixels))
