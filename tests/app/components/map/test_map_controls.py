"""Every control of every page says in a sentence what it does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import navigation
from app.analysis.map.reconstruction import MapPoint
from app.analysis.map.regions import Region
from app.services import fitted_maps, tables
from app.state.widgets import widget_key
from tests.app.conftest import OpenPage
from tests.app.controls import KINDS, unexplained
from tests.app.report.test_download import ran
from tests.app.views.latent.test_page import labelled

__all__ = ["labelled"]

APP = Path(navigation.__file__).parent
#: Calls of Streamlit that draw a control. A table that can be edited explains its columns instead.
CALLS = (KINDS - {"button_group"}) | {
    "form_submit_button",
    "segmented_control",
    "pills",
    "feedback",
}


def controls() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call in the app that draws a control, with where it is."""
    for path in sorted(APP.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr in CALLS:
                yield f"{path.relative_to(APP)}:{node.lineno}", node


def test_every_control_is_drawn_with_its_sentence() -> None:
    """Whatever state of a page draws it: the source says ``help``."""
    found = list(controls())
    assert len(found) > 60
    assert [place for place, call in found if "help" not in {k.arg for k in call.keywords}] == []


def test_the_sentences_are_sentences() -> None:
    for place, call in controls():
        (text,) = [k.value for k in call.keywords if k.arg == "help"]
        if isinstance(text, ast.Constant):
            assert isinstance(text.value, str), place
            assert 15 <= len(text.value) <= 140, place
            assert not text.value[0].islower(), place
            assert text.value.endswith("."), place
            assert "!" not in text.value, place


@pytest.mark.slow(quick=["compare"])
@pytest.mark.parametrize("name", list(navigation.PAGES))
def test_nothing_on_a_page_is_left_unexplained(
    open_page: OpenPage, fitted: str, labelled: str, name: navigation.PageName
) -> None:
    for run in (None, fitted, labelled):
        page = open_page(name, run=run)
        assert not page.exception
        assert unexplained(page) == set(), run


def test_nor_beside_a_point_and_a_selection(open_page: OpenPage, labelled: str) -> None:
    page = open_page("latent", run=labelled)
    place = tuple(float(z) for z in fitted_maps.model(labelled).embedding_.mean[3])
    square = ((-9.0, -9.0), (9.0, -9.0), (9.0, 9.0), (-9.0, 9.0))
    page.session_state["latent.point"] = {labelled: MapPoint(place, 3)}
    page.session_state["latent.selection"] = {labelled: Region((0, 1), (square,))}
    page.run()
    assert not page.exception
    assert unexplained(page) == set()


def test_nor_of_one_or_two_runs_that_are_ticked(
    open_page: OpenPage, fitted: str, labelled: str
) -> None:
    for ticked in ((labelled,), (labelled, fitted)):
        page = open_page("runs")
        page.session_state["runs.chosen"] = ticked
        page.run()
        assert not page.exception
        assert unexplained(page) == set()


def test_nor_after_a_fit_that_was_still_rising(open_page: OpenPage) -> None:
    dataset = fitted_maps.stored_dataset(tables.sample_dataset().digest)
    run = ran(dataset, "bayesian_gplvm", n_components=2, n_inducing=5, max_iter=40)
    page = open_page("fit", run=run)
    assert not page.exception
    assert page.button(widget_key("fit", run, "more"))
    assert unexplained(page) == set()


def test_a_control_without_a_word_is_found() -> None:
    from streamlit.testing.v1 import AppTest

    def script() -> None:
        import streamlit as st

        st.button("Bare")
        st.selectbox("Explained", [1, 2], help="What it is for.")
        with st.container():
            st.toggle("Beside a caption")
        st.caption("What the toggle does.")
        st.button("After a caption")
        st.slider("Lone")

    page = AppTest.from_function(script).run()
    assert unexplained(page) == {"button: Bare", "toggle: Beside a caption", "slider: Lone"}
