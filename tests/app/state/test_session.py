"""The values of a session: in its state, by key, and in the address."""

from __future__ import annotations

import pytest
import streamlit as st

from app.state.choices import ReadingChoices, SampleChoice, TargetChoice
from app.state.session import Session, session
from app.state.values import SessionValue

State = dict[str, object]


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The query parameters of a test that has no script run."""
    parameters: dict[str, str] = {}
    monkeypatch.setattr(st, "query_params", parameters)
    return parameters


def test_a_session_value_is_its_default_until_it_is_assigned(session_state: State) -> None:
    assert session.model_key is None
    assert session.reading == ReadingChoices()
    session.model_key = "ppca"
    assert session.model_key == "ppca"
    assert session_state == {"model": "ppca"}


def test_a_value_of_the_class_is_its_declaration() -> None:
    assert isinstance(Session.model_key, SessionValue)
    assert Session.model_key.key == "model"


def test_only_a_declared_value_can_be_assigned(session_state: State) -> None:
    for name in ("model", "point", "selection"):
        with pytest.raises(AttributeError):
            setattr(session, name, "ppca")
    assert not session_state


def test_a_keyed_value_is_stored_for_the_last_key_alone(session_state: State) -> None:
    session.compared_row["first"] = 3
    session.compared_row["second"] = 5
    assert (session.compared_row["first"], session.compared_row["second"]) == (None, 5)
    assert session_state == {"compare.row": {"second": 5}}


def test_a_keyed_value_that_was_set_to_none_is_not_its_default(session_state: State) -> None:
    fitted = TargetChoice("price")
    assert session.target.get(("digest", None), fitted) == fitted
    session.target["digest", None] = None
    assert session.target.get(("digest", None), fitted) is None
    assert session.target.get(("digest", "run"), fitted) == fitted


def test_the_address_takes_precedence_over_the_session(
    session_state: State, query: dict[str, str]
) -> None:
    session.sweep_id = "mine"
    assert (session_state["compare.sweep"], query) == ("mine", {"sweep": "mine"})
    query["sweep"] = "linked"
    assert session.sweep_id == "linked"
    query.clear()
    assert session.sweep_id == "mine"
    session.sweep_id = None
    assert session.sweep_id is None
    assert not query


def test_compared_runs_are_a_list_without_duplicates(
    session_state: State, query: dict[str, str]
) -> None:
    session.compared_runs = ("a", "b")
    assert query == {"runs": "a,b"}
    query["runs"] = "b,,c,b"
    assert session.compared_runs == ("b", "c")
    session.compared_runs = ()
    assert session.compared_runs == ()
    assert not query


def test_the_last_comparison_is_used_again_if_the_open_run_is_in_it(
    session_state: State, query: dict[str, str]
) -> None:
    session.compared_runs = ("a", "b")
    assert session.comparison_with("c") == ("a", "b")  # the address names it
    query.clear()  # as a change of page does
    assert session.comparison_with("c") == ()
    assert session.comparison_with("b") == ("a", "b")
    assert session.comparison_with(None) == ("a", "b")


def test_the_placement_in_the_address_is_of_whichever_run_is_open(
    session_state: State, query: dict[str, str]
) -> None:
    session.placement["run"] = "job"
    assert query == {"rows": "job"}
    assert session_state == {"new_rows.placing": {"run": "job"}}
    assert session.placement["other"] == "job"
    query.clear()
    assert session.placement["run"] == "job"
    assert session.placement["other"] is None
    session.placement["run"] = None
    assert not query


def test_a_run_that_came_by_the_address_brings_its_dataset(
    session_state: State, query: dict[str, str]
) -> None:
    session.run_id = "first"
    session.choose_source(SampleChoice("iris"))
    query.clear()  # as a change of page does
    session.sync_address()
    assert (query, session.source) == ({"run": "first"}, SampleChoice("iris"))
    query["run"] = "second"
    session.sync_address()
    assert session.source is None
    query.clear()
    assert session.run_id == "second"


def test_the_parameters_of_a_query_are_not_sent_again_unchanged(
    session_state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one sent is a message to the browser, which changes its history."""

    class Sent(dict[str, str]):
        count = 0

        def __setitem__(self, key: str, value: str) -> None:
            self.count += 1
            super().__setitem__(key, value)

    sent = Sent()
    monkeypatch.setattr(st, "query_params", sent)
    session.run_id = "run"
    session.run_id = "run"
    assert sent.count == 1
