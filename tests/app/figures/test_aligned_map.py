"""One map of several."""

import numpy as np
import pandas as pd

from app.analysis.map.row_colours import NumericColours
from app.figures import row_traces
from app.figures.aligned_map import aligned_map_figure


def test_one_map_of_several_has_equal_scales_and_no_colour_bar() -> None:
    rows = row_traces.MapRows(
        points=np.random.default_rng(0).normal(size=(5, 2)),
        number=np.arange(5),
        hover=[["row"]] * 5,
        colouring=NumericColours("height", np.arange(5.0)),
    )
    figure = aligned_map_figure(rows, equal=True, dark=False, height=300)
    assert figure.layout.yaxis.scaleanchor == "x"
    assert not any(trace.marker.showscale for trace in figure.data)
    assert not any(trace.showlegend for trace in figure.data)
    assert pd.isna(figure.layout.xaxis.title.text) or figure.layout.xaxis.title.text == ""
