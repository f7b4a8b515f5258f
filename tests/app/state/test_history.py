"""Histories of choices, such as the view: steps, undo, redo, and what is no step."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest
import streamlit
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.map.map_view import MapView
from app.state.choices import FitChoices
from app.state.history import History
from app.state.session import session

T = TypeVar("T")
VIEWS = [MapView((0, 1), colour=f"column {i}") for i in range(80)]


def test_steps_are_undone_and_redone(session_state: dict[str, object]) -> None:
    a, b, c = VIEWS[:3]
    for view in (a, b, b, c):
        session.views["run"] = view
    assert session.views.undo("run") == b
    assert session.views.undo("run") == a
    assert session.views.undo("run") is None  # the second click of two quick ones
    assert (session.views.can_undo("run"), session.views.can_redo("run")) == (False, True)
    assert session.views.redo("run") == b
    session.views["run"] = a
    assert not session.views.can_redo("run")
    assert session.views.redo("run") is None
    assert session.views.undo("run") == b
    assert session.views["other"] is None


def test_fifty_steps_are_kept(session_state: dict[str, object]) -> None:
    for view in VIEWS:
        session.views["run"] = view
    for view in reversed(VIEWS[29:-1]):
        assert session.views.undo("run") == view
    assert not session.views.can_undo("run")


def test_the_point_and_the_zoom_are_no_steps_and_come_back(
    session_state: dict[str, object],
) -> None:
    first, second = VIEWS[:2]
    session.views["run"] = first
    clicked = replace(first, row=4, zoom=((0, 1), (0, 1)))
    session.views["run"] = clicked
    assert not session.views.can_undo("run")
    session.views["run"] = second
    assert session.views.undo("run") == clicked
    session.views.replace("run", lambda view: replace(view, zoom=None))
    assert session.views["run"] == replace(first, row=4)


@given(st.lists(st.sampled_from([*VIEWS[:4], "undo", "redo"]), max_size=40))
def test_undo_then_redo_is_the_view_before(steps: list[MapView | str]) -> None:
    check_steps(History[MapView]("history"), steps)


FIELDS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3)
FITS = st.builds(FitChoices, st.none(), st.sampled_from(["ppca", None]), FIELDS)


@given(st.lists(FITS | st.sampled_from(["undo", "redo"]), max_size=40))
def test_undo_then_redo_is_the_fit_before(steps: list[FitChoices | str]) -> None:
    check_steps(History("history", FitChoices.same_choices), steps)


def check_steps(history: History[T], steps: list[T | str]) -> None:
    """Take the steps, and after each undo or redo the opposite, which leads back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamlit, "session_state", {})
        for step in steps:
            before = history["run"]
            if step == "undo":
                if history.undo("run") is not None:
                    assert history.redo("run") == before == history["run"]
                    history.undo("run")
            elif step == "redo":
                if history.redo("run") is not None:
                    after = history["run"]
                    assert history.undo("run") == before
                    assert history.redo("run") == after
            elif not isinstance(step, str):
                history["run"] = step
                assert history["run"] == step
