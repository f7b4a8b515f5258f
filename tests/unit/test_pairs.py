"""Paired histograms: what is drawn, what is told, and that user text stays text."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from app import figures
from app.apart import Pair

NASTY = '<script>alert("1")</script>'
NUMBERS = Pair(
    "weight",
    inside=np.array([0.1, 0.6, 0.3]),
    outside=np.array([0.5, 0.3, 0.2]),
    edges=np.array([0.0, 1.0, 2.0, 4.0]),
)
LEVELS = Pair(NASTY, np.array([0.75, 0.25]), np.array([0.4, 0.6]), levels=("a", NASTY))


def drawn(pair: Pair, *, dark: bool = False) -> ElementTree.Element:
    text = figures.pairs_html([pair], [0.5], dark=dark)
    svg = ElementTree.fromstring(f"<div>{text}</div>").find(".//svg")
    assert svg is not None
    return svg


def told(svg: ElementTree.Element) -> list[str]:
    return [str(title.text) for title in svg.iter("title")]


def test_steps_are_as_high_as_their_shares() -> None:
    svg = drawn(NUMBERS)
    others, selected = (one.get("d", "") for one in svg.iter("path") if one.get("fill"))
    for path, share in ((others, NUMBERS.outside), (selected, NUMBERS.inside)):
        start = float(path.split()[1].split("V")[0])
        tops = [float(v) for v in re.findall(r"V([0-9.]+)", path)][:-1]
        height = start - np.array(tops)
        np.testing.assert_allclose(height / height.sum(), share, atol=2e-3)
        right = np.array([float(v) for v in re.findall(r"H([0-9.]+)", path)])
        assert right[2] - right[1] == pytest.approx(2 * (right[1] - right[0]), abs=0.05)


def test_pointing_at_a_bar_tells_both_shares() -> None:
    assert told(drawn(NUMBERS))[1] == "1.00 to 2.00: 60.0% of the selected, 30.0% of the others"
    assert told(drawn(LEVELS))[0] == "a: 75.0% of the selected, 40.0% of the others"


def test_levels_stand_beside_each_other() -> None:
    bars = [one for one in drawn(LEVELS).iter("rect") if one.get("fill") != "transparent"]
    heights = [float(one.get("height", "")) for one in bars]
    np.testing.assert_allclose(
        np.array(heights) / heights[0], np.array([40, 75, 60, 25]) / 40, 0.01
    )
    edges = [(float(one.get("x", "")), float(one.get("width", ""))) for one in bars]
    for (x, wide), (following, _) in pairwise(edges):
        assert x + wide <= following + 0.02


def test_user_text_stays_text() -> None:
    text = figures.pairs_html([LEVELS], [0.5], dark=True)
    assert "<script" not in text
    assert any(NASTY in one for one in told(drawn(LEVELS)))


def test_dates_are_written_as_dates() -> None:
    edges = np.array(["2020-01-01", "2020-07-01", "2021-01-01"], dtype="datetime64[s]")
    pair = Pair("when", np.array([0.5, 0.5]), np.array([1.0, 0.0]), edges.astype(float), dates=True)
    texts = [one.text for one in drawn(pair).iter("text")]
    assert texts[-3:] == ["2020-01-01", "2020-07-02", "2021-01-01"]


@pytest.mark.parametrize("dark", [False, True])
def test_shares_of_nothing_are_drawn_flat(dark: bool) -> None:
    pair = Pair("flat", np.zeros(2), np.zeros(2), np.array([1.0, 1.0, 1.0]))
    assert "nan" not in ElementTree.tostring(drawn(pair, dark=dark), encoding="unicode")
