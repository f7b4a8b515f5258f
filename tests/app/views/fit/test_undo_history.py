"""Undo and redo on the Fit page: of the task, the model and its settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.state.choices import FitChoices, TargetChoice
from app.state.widgets import widget_key
from app.views.fit.model_choice import MODEL
from tests.app.conftest import OpenPage, Wait
from tests.app.controls import unexplained

START = widget_key("fit", "start")


def button(page: AppTest, label: str) -> Any:
    (found,) = [one for one in page.main.button if one.label == label]
    return found


def click(page: AppTest, label: str) -> AppTest:
    return button(page, label).click().run()


def field(page: AppTest, label: str) -> Any:
    main = page.main
    kinds = (main.number_input, main.selectbox, main.checkbox, main.text_input, main.slider)
    (found,) = [one for kind in kinds for one in kind if one.label == label]
    return found


def choose(page: AppTest, model: str) -> AppTest:
    return page.selectbox(MODEL).set_value(model).run()


def change(page: AppTest, label: str, value: object) -> AppTest:
    return field(page, label).set_value(value).run()


def shown(page: AppTest) -> dict[str, object]:
    """The value of every field of the form, by label."""
    main = page.main
    kinds = (main.number_input, main.selectbox, main.checkbox, main.text_input, main.slider)
    return {one.label.partition(" (")[0]: one.value for kind in kinds for one in kind}


def steps(page: AppTest) -> tuple[bool, bool]:
    """Whether there is a step to undo, and one to redo."""
    return not button(page, "Undo").disabled, not button(page, "Redo").disabled


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail where a field is given a default beside the value that undo has set."""
    with caplog.at_level(logging.WARNING):
        yield
    assert "created with a default value" not in caplog.text


def test_a_change_of_the_model_is_undone_with_its_settings(open_page: OpenPage) -> None:
    page = open_page("fit")
    assert steps(page) == (False, False)
    first = shown(page)
    choose(page, "bayesian_gplvm")
    change(page, "Dimensions", 3)
    second = shown(page)
    choose(page, "ppca")
    third = shown(page)
    assert click(page, "Undo").selectbox(MODEL).value == "bayesian_gplvm"
    assert field(page, "Dimensions").value == 3
    assert shown(page) == second
    assert shown(click(click(page, "Undo"), "Undo")) == first
    assert steps(page) == (False, True)
    for _ in range(3):
        click(page, "Redo")
    assert shown(page) == third
    assert steps(page) == (True, False)
    assert not page.exception
    assert unexplained(page) == set()


def test_a_change_of_a_setting_is_undone_and_the_fit_has_what_is_shown(
    open_page: OpenPage, wait: Wait
) -> None:
    page = choose(open_page("fit"), "bayesian_gplvm")
    change(page, "Steps at most", 3)
    change(page, "Dimensions", 4)
    change(page, "Dimensions: ard", True)
    click(page, "Undo")
    assert (field(page, "Dimensions").value, field(page, "Dimensions: ard").value) == (4, False)
    click(page, "Undo")
    assert field(page, "Dimensions").value == 2
    assert field(page, "Steps at most").value == 3
    click(page, "Redo")
    page.button(START).click().run()
    assert not page.exception
    job = wait(page.query_params["run"])
    assert (job.spec.parameters["n_components"], job.spec.parameters["max_iter"]) == (4, 3)
    page.run()
    assert steps(page) == (True, True)  # a run of the same dataset is no other choice
    click(page, "Redo")
    assert field(page, "Dimensions: ard").value


def test_an_emptied_field_comes_back(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "bayesian_gplvm")
    change(page, "Steps at most", 7)
    change(page, "Steps at most", None)
    assert field(click(page, "Undo"), "Steps at most").value == 7
    assert field(click(page, "Redo"), "Steps at most").value is None


def test_a_new_change_cuts_what_could_be_redone(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "ppca")
    choose(page, "vae")
    click(page, "Undo")
    assert steps(page) == (True, True)
    choose(page, "pca")
    assert steps(page) == (True, False)
    assert click(page, "Undo").selectbox(MODEL).value == "ppca"


def test_the_recommended_model_is_a_step(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "ppca")
    page.button(widget_key("fit", "recommended")).click().run()
    assert page.selectbox(MODEL).value == "ldgd"
    assert click(page, "Undo").selectbox(MODEL).value == "ppca"
    click(page, "Undo")
    assert page.session_state["model"] is None  # the recommended one, of any table


def test_a_change_of_the_task_is_undone_with_its_held_out_rows(open_page: OpenPage) -> None:
    page = open_page("fit")
    map_form = shown(page)
    change(page, "Target", "alcohol")
    change(page, "Scored on", "time")
    options = field(page, "By the column").options
    change(page, "By the column", options[2])
    change(page, "Target", "malic_acid")
    other = shown(page)
    click(page, "Undo")
    assert (field(page, "Target").value, field(page, "Scored on").value) == ("alcohol", "time")
    assert field(page, "By the column").value == options[2]
    click(page, "Undo")
    assert field(page, "By the column").value == options[0]
    click(page, "Undo")
    assert field(page, "Scored on").value == "drawn"
    assert shown(click(page, "Undo")) == map_form
    for _ in range(4):
        click(page, "Redo")
    assert shown(page) == other
    assert not page.exception


def test_a_kernel_of_components_is_undone_component_by_component(open_page: OpenPage) -> None:
    page = open_page("fit")
    change(page, "Target", "alcohol")
    choose(page, "gp_regressor")
    change(page, "Kernel", "built from components")
    change(page, "Kernel of component 2", "linear")
    change(page, "Sign of component 2", "*")
    built = shown(page)
    kernel = "The kernel: `rbf * linear`"
    assert kernel in [one.value for one in page.markdown]
    click(page, "Undo")
    assert field(page, "Sign of component 2").value == "+"
    click(page, "Undo")
    assert field(page, "Kernel of component 2").value is None
    assert field(page, "Kernel").value == "built from components"
    assert shown(click(click(page, "Redo"), "Redo")) == built
    assert kernel in [one.value for one in page.markdown]
    assert not page.exception


def test_where_no_model_can_be_fitted_the_task_is_undone(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lvmcore.recommend import target_models

    monkeypatch.setattr(target_models, "target_obstacle", lambda *_: "Every known cell is equal.")
    page = open_page("fit")
    change(page, "Target", "alcohol")
    assert START not in {one.key for one in page.button}
    assert click(page, "Undo").selectbox(MODEL).value == "ldgd"


def test_fifty_steps_are_undone(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "pca")
    seed = next(one.label for one in page.number_input if str(one.key).endswith(":random_state"))
    for number in range(1, 54):
        change(page, seed, number)
    for number in range(52, 2, -1):
        click(page, "Undo")
        assert field(page, seed).value == number
    assert steps(page) == (False, True)


def test_the_steps_are_kept_over_a_change_of_the_page(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "bayesian_gplvm")
    change(page, "Dimensions", 3)
    change(page, "Dimensions", 4)
    click(page, "Undo")
    for name in ("runs", "fit"):
        page.switch_page(navigation.PAGES[name]).run()
    assert field(page, "Dimensions").value == 3
    assert steps(page) == (True, True)
    click(page, "Redo")
    assert field(page, "Dimensions").value == 4
    click(click(page, "Undo"), "Undo")
    assert field(page, "Dimensions").value == 2


def test_another_dataset_begins_without_steps(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "ppca")
    page.switch_page(navigation.PAGES["data"]).run()
    next(box for box in page.selectbox if "ample" in box.label).set_value("iris").run()
    page.switch_page(navigation.PAGES["fit"]).run()
    assert "iris" in page.main.markdown[0].value
    assert steps(page) == (False, False)
    assert page.selectbox(MODEL).value == "ppca"


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_is_undone_to_its_start_and_redone_to_its_end(
    open_page: OpenPage, seed: int
) -> None:
    random = Random(seed)
    page = open_page("fit")
    states = [shown(page)]
    while len(states) < 12:
        _random_change(page, random)
        assert not page.exception
        if shown(page) != states[-1]:
            states.append(shown(page))
    for state in reversed(states[:-1]):
        assert shown(click(page, "Undo")) == state
    assert steps(page) == (False, True)
    for state in states[1:]:
        assert shown(click(page, "Redo")) == state
    assert steps(page) == (True, False)


def _random_change(page: AppTest, random: Random) -> None:
    """Change any field of the form: the task, the model or a setting."""
    main = page.main
    one = random.choice([*main.selectbox, *main.number_input, *main.checkbox])
    if one in list(main.checkbox):
        one.set_value(not one.value).run()
    elif one in list(main.selectbox):
        one.select_index(random.randrange(len(one.options))).run()
    elif not one.disabled:
        one.set_value((one.value or one.min or 0) + one.step).run()


def test_a_field_that_was_not_there_is_no_difference() -> None:
    menu = FitChoices(None, "gp_regressor", {"kernel": "typed"})
    drawn = FitChoices(None, "gp_regressor", {"kernel": "typed", "kernel:typed": ""})
    assert menu.same_choices(drawn)
    assert drawn.same_choices(menu)
    assert not drawn.same_choices(replace(drawn, fields={"kernel": "typed", "kernel:typed": "rbf"}))
    assert not menu.same_choices(replace(menu, model=None))
    assert not menu.same_choices(replace(menu, target=TargetChoice("price")))
