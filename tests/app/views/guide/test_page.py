"""The page on how to read: its figures are computed, and it is found from the map."""

import json

import numpy as np
import pytest

from app import navigation
from app.views.guide import sections as guide_sections
from app.views.guide.examples import compute, examples
from tests.app.conftest import OpenPage, follow, ways
from tests.app.shell.test_shell import texts


def test_it_is_the_last_page_and_the_map_leads_to_it_and_back(
    open_page: OpenPage, fitted: str
) -> None:
    assert list(navigation.PAGES)[-1] == "guide"
    page = open_page("latent", run=fitted)
    assert "How to read this" in ways(page)
    page = follow(page, "How to read this")
    assert not page.exception
    assert page.title[0].value == "Guide"
    assert "Back to the map" in ways(page)


def test_every_section_has_its_words_and_one_figure(open_page: OpenPage) -> None:
    page = open_page("guide")
    assert not page.exception
    sections = guide_sections.sections()
    assert len(sections) == 6
    charts = page.get("plotly_chart")
    assert [chart.proto.alt for chart in charts] == [section.alt for section in sections]
    assert all(json.loads(chart.proto.spec)["data"] for chart in charts)
    said = texts([*page.markdown, *page.caption])
    for section in sections:
        assert section.caption in said
        assert all(sentence in said for sentence in section.sentences)
    assert "All figures are computed" in said
    assert "Go to the data" in ways(page)


@pytest.mark.parametrize("dark", [False, True])
def test_the_figures_are_drawn_light_and_dark(dark: bool) -> None:
    for section in guide_sections.sections():
        assert section.figure(dark).data


def test_what_the_page_says_of_its_figures_holds() -> None:
    true, shuffled = examples()["true"], examples()["shuffled"]
    assert true.held_out > 0.9
    assert shuffled.on_map > 0.95, "the classes part on the map of shuffled labels"
    assert shuffled.held_out < 0.5, "and cannot be told on rows held out"
    assert true.relevance["data"].sum() == pytest.approx(1, abs=1e-3)
    grid = true.background.value
    corners = [grid[0, 0], grid[0, -1], grid[-1, 0], grid[-1, -1]]
    assert min(corners) > grid.min()
    assert float(np.median(corners)) > float(np.median(grid))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_the_figures_are_what_the_models_compute() -> None:
    """Where a model changes, ``python -m app.views.guide.examples`` has to be run again."""
    for name, found in compute().items():
        kept = examples()[name]
        assert tuple(found["axes"]) == kept.axes
        assert found["bound"][-1] == pytest.approx(kept.bound[-1], rel=0.01)
        assert found["on_map"] == pytest.approx(kept.on_map, abs=0.05)
        assert found["held_out"] == pytest.approx(kept.held_out, abs=0.1)
        np.testing.assert_allclose(found["relevance"]["data"], kept.relevance["data"], atol=0.05)
