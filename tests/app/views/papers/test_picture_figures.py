"""Pictures as they are, with hidden pixels, and reconstructed."""

import numpy as np
import pytest

from app.analysis.tables.hidden_pictures import ReconstructedPictures
from app.figures.palette import rgb
from app.figures.theme import accent
from app.views.papers.picture_figures import picture_columns_figure


@pytest.mark.parametrize("dark", [False, True])
def test_hidden_pixels_have_the_accent_colour_and_values_are_clipped(dark: bool) -> None:
    truth = np.array([[0.0, 10.0, 5.0, 10.0], [10.0, 0.0, 0.0, 0.0]])
    seen = truth.copy()
    seen[1, 3] = np.nan
    mean = np.array([[-3.0, 14.0, 5.0, 10.0], [10.0, 0.0, 0.0, 0.0]])
    found = picture_columns_figure(ReconstructedPictures(truth, seen, mean), (2, 2), dark=dark)
    canvas = np.asarray(found.data[0].z)
    assert canvas.shape == (2 * 2 + 2, 3 * 2 + 4, 3)
    assert canvas[0, 0].tolist() == [0] * 3
    assert canvas[0, 1].tolist() == [255] * 3
    np.testing.assert_allclose(canvas[5, 5], rgb([accent(dark)])[0], atol=1)
    assert canvas[5, 1].tolist() == [0] * 3  # the same pixel as it was
    assert canvas[0, 8].tolist() == [0] * 3  # below the range
    assert canvas[0, 9].tolist() == [255] * 3
    assert [note.text for note in found.layout.annotations] == [
        "observed",
        "given",
        "decoded",
    ]
