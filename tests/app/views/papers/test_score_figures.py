"""Scores of repeated fits."""

import numpy as np
import pytest

from app.views.papers.score_figures import score_dots_figure


def test_each_model_has_its_fits_their_mean_and_sd() -> None:
    found = score_dots_figure({"<b>a</b>": [1.0, 2.0, 6.0], "b": [4.0]}, "RMSE", dark=False)
    fits, mean = found.data
    assert np.asarray(fits.x).tolist() == [1, 2, 6, 4]
    assert np.asarray(fits.y).tolist() == [0, 0, 0, 1]
    assert list(mean.x) == [3, 4]
    assert list(mean.error_x.array) == pytest.approx([np.sqrt(7), 0])
    assert "<b>" not in found.layout.yaxis.ticktext[0]
    assert "±" in mean.hovertext[0]
    assert "±" not in mean.hovertext[1]
