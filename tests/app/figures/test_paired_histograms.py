"""Paired histograms: what is drawn, what is told, and that user text stays text."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from app.analysis.map.selection_contrast import PairedHistogram
from app.figures import paired_histograms

NASTY = '<script>alert("1")</script>'
NUMBERS = PairedHistogram(
    "weight",
    inside=np.array([0.1, 0.6, 0.3]),
    outside=np.array([0.5, 0.3, 0.2]),
    edges=np.array([0.0, 1.0, 2.0, 4.0]),
)
LEVELS = PairedHistogram(NASTY, np.array([0.75, 0.25]), np.array([0.4, 0.6]), levels=("a", NASTY))


def drawn(pair: PairedHistogram, *, dark: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(
        f"<div>{paired_histograms.paired_histograms_html([pair], [0.5], dark=dark)}</div>"
    )


def told(page: ElementTree.Element) -> list[str]:
    return [one.get("title", "") for one in page.iter("div") if one.get("title")]


def bars(page: ElementTree.Element) -> list[dict[str, float]]:
    """Places and sizes of the bars, in per cent: of the others and the selected in turn."""
    styles = [one.get("style", "") for one in page.iter("div") if one.get("class") == "bar"]
    return [
        {name: float(value) for name, value in re.findall(r"(left|width|height):([0-9.]+)%", style)}
        for style in styles
    ]


def test_bars_are_as_high_as_their_shares_and_as_wide_as_their_bins() -> None:
    found = bars(drawn(NUMBERS))
    for place, share in ((0, NUMBERS.outside), (1, NUMBERS.inside)):
        height = np.array([bar["height"] for bar in found[place::2]])
        np.testing.assert_allclose(height / height.sum(), share, atol=1e-3)
        assert [bar["left"] for bar in found[place::2]] == [0, 25, 50]
        assert [bar["width"] for bar in found[place::2]] == [25, 25, 50]


def test_pointing_at_a_bar_tells_both_shares() -> None:
    assert told(drawn(NUMBERS))[1] == "1.00 to 2.00: 60.0% of the selected, 30.0% of the others"
    assert told(drawn(LEVELS))[0] == "a: 75.0% of the selected, 40.0% of the others"


def test_levels_stand_beside_each_other() -> None:
    found = bars(drawn(LEVELS))
    heights = np.array([bar["height"] for bar in found])
    np.testing.assert_allclose(heights / heights[0], np.array([40, 75, 60, 25]) / 40, 0.01)
    for bar, following in pairwise(found):
        assert bar["left"] + bar["width"] <= following["left"] + 0.02


def test_user_text_stays_text() -> None:
    text = paired_histograms.paired_histograms_html([LEVELS], [0.5], dark=True)
    assert "<script" not in text
    assert any(NASTY in one for one in told(drawn(LEVELS)))


def test_dates_are_written_as_dates() -> None:
    edges = np.array(["2020-01-01", "2020-07-01", "2021-01-01"], dtype="datetime64[s]")
    pair = PairedHistogram(
        "when", np.array([0.5, 0.5]), np.array([1.0, 0.0]), edges.astype(float), dates=True
    )
    texts = [one.text for one in drawn(pair).iter("span")]
    assert texts[-3:] == ["2020-01-01", "2020-07-02", "2021-01-01"]


@pytest.mark.parametrize("dark", [False, True])
def test_shares_of_nothing_are_drawn_flat(dark: bool) -> None:
    pair = PairedHistogram("flat", np.zeros(2), np.zeros(2), np.array([1.0, 1.0, 1.0]))
    assert {bar["height"] for bar in bars(drawn(pair, dark=dark))} == {0.0}
