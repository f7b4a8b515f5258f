"""The Fit page: choice of a model, form, a fit from Start to its outcome, what can go wrong."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from app import navigation
from app.analysis.graphical_models.model_families import graphical_model
from app.components import derived_run
from app.services import model_cards, server, tables
from app.services import runs as runs_service
from app.state import choices
from app.state.widgets import widget_key
from app.views.fit.model_choice import MODEL, TRAITS
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.jobs.run_job import run_job
from lvmcore.recommend import latent_models, target_models
from lvmcore.runs import JobSpec
from tests.app.conftest import OpenPage, Wait, follow, ways
from tests.app.controls import unexplained
from tests.app.shell.test_shell import texts

START = widget_key("fit", "start")


def choose(page: AppTest, key: str) -> AppTest:
    page.selectbox(MODEL).set_value(key).run()
    return page


def offered(page: AppTest) -> list[str]:
    """The titles of the models in the list."""
    return [
        option.removeprefix("★ ").partition(": ")[0] for option in page.selectbox(MODEL).options
    ]


def charts(page: AppTest) -> int:
    return len(page.get("echarts_chart"))


def dataset_with_labels() -> Dataset:
    table = tables.table(choices.SampleChoice("iris"), choices.ReadingChoices())
    return tables.dataset_of(table, tables.proposed_roles(table))


def test_the_recommended_model_is_chosen_with_its_reason_and_every_model_is_said(
    open_page: OpenPage,
) -> None:
    page = open_page("fit")
    assert page.selectbox(MODEL).value == "ldgd"
    assert page.selectbox(MODEL).options[0].startswith("★ LDGD: ")
    said = texts(page.markdown).replace("\\", "")
    assert "Recommended here: the label has 3 classes to learn from." in said
    for card in model_cards.cards():
        assert (card.title in offered(page)) != (f"**{card.title}**: {card.summary}" in said)
    assert "several labels" in texts(page.caption)


def test_the_advanced_settings_are_folded_and_the_others_are_not(open_page: OpenPage) -> None:
    page = open_page("fit")
    assert "**Settings of LDGD**" in texts(page.markdown)
    (advanced,) = [one for one in page.expander if one.label == "Advanced settings"]
    assert not advanced.proto.expanded
    folded = {str(field.key) for field in (*advanced.number_input, *advanced.selectbox)}
    assert any(key.endswith(":dtype") for key in folded)
    assert not any(key.endswith((":max_iter", ":n_components", ":device")) for key in folded)
    assert any(str(field.key).endswith(":max_iter") for field in page.number_input)
    assert START not in {button.key for button in advanced.button}


def test_the_graphical_model_of_the_chosen_model_is_folded_beside_it(open_page: OpenPage) -> None:
    page = open_page("fit")
    assert graphical_model("ldgd").description in _pictures(page)
    assert "$g_{nk}$: value at the position of the function of class k" in texts(page.caption)
    choose(page, "vae")
    assert not page.exception
    assert _pictures(page) == [graphical_model("vae").description]
    assert "Dashed arrows: inference." in texts(page.caption)
    (folded,) = [one for one in page.get("popover") if one.proto.popover.label == "Diagram"]
    assert _pictures(folded) == _pictures(page)


def _pictures(part: AppTest | Block) -> list[str]:
    """What the pictures in a part of the page show."""
    return [one.proto.imgs[0].alt for one in part.get("image")]


def test_the_list_is_filtered_by_what_models_support(open_page: OpenPage) -> None:
    page = open_page("fit")
    every = len(offered(page))
    (pills,) = [one for one in page.get("button_group") if one.key == TRAITS]
    pills.set_value(["counts", "missing cells"]).run()
    assert offered(page) == ["LDGD", "SRFLVM"]  # the chosen one stays
    assert page.selectbox(MODEL).label == f"Model (2 of {every})"
    choose(page, "srflvm")
    assert offered(page) == ["SRFLVM"]
    assert page.selectbox(MODEL).value == "srflvm"
    (back,) = [button for button in page.button if button.key == widget_key("fit", "recommended")]
    back.click().run()
    assert page.selectbox(MODEL).value == "ldgd"


def test_without_a_label_a_model_that_needs_one_is_not_offered_and_the_reason_is_said(
    open_page: OpenPage,
) -> None:
    page = open_page("data")
    label = next(box for box in page.selectbox if box.label == "Label")
    label.select_index(0).run()
    page.switch_page(navigation.PAGES["fit"]).run()
    assert "LDGD" not in offered(page)
    (refused,) = [one for one in page.expander if one.label.startswith("Not for this table")]
    assert "LDGD" in texts(refused.markdown)
    assert "label column on the Data page" in texts(refused.caption)
    assert page.selectbox(MODEL).value == "bayesian_gplvm"


def test_a_column_that_no_model_can_learn_says_why(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "Every known cell is the same."
    monkeypatch.setattr(target_models, "target_obstacle", lambda *_: refused)
    page = open_page("fit")
    (target,) = [box for box in page.selectbox if box.label == "Target"]
    target.set_value("alcohol").run()
    assert not page.exception
    assert refused in texts(page.warning).replace("\\", "")
    assert MODEL not in {box.key for box in page.selectbox}
    assert START not in {button.key for button in page.button}


def test_a_label_without_ticks_stays_without_one(open_page: OpenPage) -> None:
    page = open_page("data")
    label = next(box for box in page.selectbox if box.label == "Label")
    label.select_index(0).run()
    page.switch_page(navigation.PAGES["fit"]).run()
    page.switch_page(navigation.PAGES["data"]).run()
    assert next(box for box in page.selectbox if box.label == "Label").value == -1
    assert "label with" not in texts(page.markdown)


@pytest.mark.slow(quick=["qep_lvm", "rflvm", "vae"])
@pytest.mark.parametrize("card", model_cards.cards(), ids=lambda card: card.key)
def test_the_form_offers_every_parameter_at_its_suggested_value(
    open_page: OpenPage, card: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = next(found for found in model_cards.cards() if found is card)
    table = tables.table(choices.SampleChoice(choices.DEFAULT_SAMPLE), choices.ReadingChoices())
    shape = tables.table_summary(tables.dataset_of(table, tables.proposed_roles(table)))
    if model.model.capabilities.cells == "counts":
        shape = replace(shape, cells="counts")  # as if the sample held counts
        monkeypatch.setattr(tables, "table_summary", lambda dataset: shape)
    page = open_page("fit")
    if model.key != "ldgd":
        choose(page, model.key)
    assert not page.exception
    fields = [*page.number_input, *page.selectbox, *page.checkbox, *page.text_input, *page.slider]
    named = {field.key.rsplit(":", 1)[-1]: field.value for field in fields if field.key}
    suggested = model.suggest(shape)
    for parameter in model.parameters:
        expected = suggested.get(parameter.name, parameter.default)
        word = None if parameter.suggestions else parameter.word  # beside a number, a box to tick
        if word is not None:
            assert named[word] == (expected == word)
        if expected != word or word is None:
            assert named[parameter.name] == expected, parameter.name


def test_a_word_in_the_place_of_a_number_is_a_box_to_tick(open_page: OpenPage, wait: Wait) -> None:
    page = choose(open_page("fit"), "qep_lvm")
    (slider,) = [field for field in page.slider if field.label == "Exponent q"]
    assert (slider.min, slider.max, slider.value, slider.disabled) == (0.1, 2.0, 1.5, False)
    (box,) = [field for field in page.checkbox if field.label == "Exponent q: learn"]
    assert not box.value
    assert unexplained(page) == set()
    slider.set_value(1.25).run()
    box.check().run()
    (slider,) = [field for field in page.slider if field.label == "Exponent q"]
    assert (slider.disabled, slider.value) == (True, 1.25)
    (steps,) = [field for field in page.number_input if field.label == "Steps at most"]
    steps.set_value(3).run()
    page.button(START).click().run()
    assert not page.exception
    job = wait(page.query_params["run"])
    assert job.status == "done", job.message
    assert job.spec.parameters["q"] == "learn"


def test_an_emptied_field_is_fitted_as_advised(open_page: OpenPage, wait: Wait) -> None:
    page = choose(open_page("fit"), "bayesian_gplvm")
    (size,) = [field for field in page.number_input if field.label == "Dimensions"]
    assert size.value == 2
    size.set_value(None).run()
    (steps,) = [field for field in page.number_input if field.label == "Steps at most"]
    steps.set_value(3).run()
    page.button(START).click().run()
    job = wait(page.query_params["run"])
    assert job.spec.parameters["n_components"] == 2


def test_the_relevance_can_decide_the_dimensions(open_page: OpenPage, wait: Wait) -> None:
    page = choose(open_page("fit"), "bayesian_gplvm")
    (box,) = [field for field in page.checkbox if field.label == "Dimensions: ard"]
    box.check().run()
    (size,) = [field for field in page.number_input if field.label == "Dimensions"]
    assert size.disabled
    (steps,) = [field for field in page.number_input if field.label == "Steps at most"]
    steps.set_value(3).run()
    page.button(START).click().run()
    job = wait(page.query_params["run"])
    assert job.spec.parameters["n_components"] == "ard"
    assert server.store().load_model(job.id).embedding_.mean.shape[1] == 10


def test_a_long_table_is_recommended_the_route_by_batches(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = len(tables.sample_dataset())
    monkeypatch.setattr(latent_models, "WHOLE_TABLE_ROWS", rows - 1)
    page = open_page("fit")
    assert page.selectbox(MODEL).value == "fast_ldgd"
    assert f"512 of {rows} rows at a time" in texts(page.markdown)
    assert f"All {rows} rows fit into one batch" in texts(page.caption)
    (size,) = [field for field in page.number_input if field.label == "Rows a step"]
    size.set_value(64).run()
    said = texts(page.caption).replace("\\", "")
    assert f"Each step uses 64 of {rows} rows, which is faster here" in said
    said = texts(choose(page, "ldgd").caption).replace("\\", "")
    assert f"Each step uses all {rows} rows. Fast LDGD learns from 512 at a time" in said


def test_a_short_table_says_which_rows_a_step_uses(open_page: OpenPage) -> None:
    rows = len(tables.sample_dataset())
    page = open_page("fit")
    assert f"Each step uses all {rows} rows, the faster route" in texts(page.caption)
    choose(page, "fast_ldgd")
    (size,) = [field for field in page.number_input if field.label == "Rows a step"]
    size.set_value(64).run()
    assert "LDGD, whose steps use all of them, is faster" in texts(page.caption)
    assert "Each step uses" not in texts(choose(page, "ppca").caption)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["pca", "ppca"])
def test_a_fit_from_start_to_its_outcome(open_page: OpenPage, wait: Wait, key: str) -> None:
    page = choose(open_page("fit"), key)
    page.button(START).click().run()
    assert not page.exception
    run = page.query_params["run"]
    job = wait(run)
    assert job.status == "done", job.message
    assert job.spec.model == key
    page.run()
    assert not page.exception
    said = texts(page.success)
    assert ("Bound (ELBO)" in said) == (key == "ppca")
    assert texts(page.sidebar.text).count("on wine") == 1
    follow(page, "Explore the map")
    assert page.title[0].value == "Latent"
    assert page.query_params["run"] == run


@pytest.mark.slow
def test_a_fit_with_a_curve_shows_it_with_its_terms_and_the_map(
    open_page: OpenPage, wait: Wait
) -> None:
    run = runs_service.start_fit(dataset_with_labels(), "bayesian_gplvm", {"max_iter": 25})
    job = wait(run)
    assert job.status == "done", job.message
    page = open_page("fit", run=run)
    assert not page.exception
    assert charts(page) == 4
    said = texts(page.warning) + texts(page.success)
    assert ("still rising" in said) == (job.converged is False)
    window = page.slider(widget_key("fit", run, "window"))
    assert window.value == (1, 25)
    window.set_range(5, 20).run()
    assert not page.exception
    assert charts(page) == 4


def test_the_curves_of_a_fit_that_converged_end_with_it(open_page: OpenPage) -> None:
    dataset, store = dataset_with_labels(), server.store()
    store.datasets.put(dataset)
    with store.own(JobSpec(dataset.digest, dataset.name, "bayesian_gplvm", {})) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        run = folder.path.name
    assert store.get(run).converged
    last = list(store.events(run))[-1].step.iteration
    assert last < 900
    page = open_page("fit", run=run)
    (window,) = [slider for slider in page.slider if slider.label == "Steps shown"]
    assert (window.max, window.value) == (last, (1, last))
    window.set_range(5, 20).run()
    assert not page.exception
    (window,) = [slider for slider in page.slider if slider.label == "Steps shown"]
    assert window.value == (5, 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "settings", "words"),
    [
        ("rflvm", {"max_iter": 20, "n_features": 8}, "Log likelihood of the draws"),
        ("tsne", {"max_iter": 100}, "Objective of the fit"),
    ],
)
def test_a_curve_that_is_no_bound_is_called_what_it_is(
    open_page: OpenPage, wait: Wait, key: str, settings: dict[str, int], words: str
) -> None:
    run = runs_service.start_fit(dataset_with_labels(), key, settings)
    job = wait(run)
    assert job.status == "done", job.message
    page = open_page("fit", run=run)
    assert not page.exception
    assert charts(page) == 2
    said = texts(page.markdown)
    assert words in said
    assert ("Objective of the fit" in said) == (key == "tsne")
    for name in ("latent", "generate", "new_rows"):
        assert not open_page(name, run=run).exception


@pytest.mark.slow
def test_a_run_in_the_address_brings_its_own_data(open_page: OpenPage, wait: Wait) -> None:
    run = runs_service.start_fit(dataset_with_labels(), "ppca", {})
    wait(run)
    page = open_page("fit", run=run)
    assert "iris" in texts(page.sidebar.text)
    assert "Explore the map" in ways(page)


def test_two_sessions_see_the_same_run(open_page: OpenPage, fitted: str) -> None:
    first, second = open_page("fit", run=fitted), open_page("fit", run=fitted)
    assert texts(first.success) == texts(second.success) != ""


def test_a_setting_that_is_not_allowed_is_explained_beside_the_form(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = choose(open_page("fit"), "ppca")
    start = runs_service.start_fit

    def refused(dataset: Dataset, key: str, parameters: Mapping[str, object], _: object) -> str:
        return start(dataset, key, {**parameters, "n_components": -3})

    with monkeypatch.context() as patch:  # the form's own limits let no such value through
        patch.setattr(runs_service, "start_fit", refused)
        page.button(START).click().run()
    assert not page.exception
    said = texts(page.error).replace("\\", "")
    assert "n_components=-3" in said
    assert "1 to 1000" in said
    assert "run" not in page.query_params
    page.button(START).click().run()
    assert not page.error
    assert "run" in page.query_params


@pytest.mark.slow
def test_a_failed_fit_says_why_and_what_to_do(open_page: OpenPage, wait: Wait) -> None:
    run = runs_service.start_fit(dataset_with_labels(), "ppca", {"n_components": 500})
    job = wait(run)
    assert job.status == "failed"
    page = open_page("fit", run=run)
    assert not page.exception
    said = texts(page.error).replace("\\", "")
    assert "500" in said
    assert "Traceback" not in said
    assert "fit again" in said.lower()
    assert page.button(START).label == "Fit"


def test_a_cancelled_fit_is_said_to_be(open_page: OpenPage, wait: Wait) -> None:
    run = runs_service.start_fit(
        dataset_with_labels(), "bayesian_gplvm", {"max_iter": 5000, "n_inducing": 60}
    )
    page = open_page("fit", run=run)
    assert not page.exception
    if not server.store().get(run).finished:
        page.button(widget_key("fit", run, "cancel")).click().run()
    job = wait(run)
    page.run()
    assert not page.exception
    assert job.status in texts(page.markdown)


@pytest.mark.slow
def test_what_keeps_a_fit_from_being_cancelled_is_said_beside_it(
    open_page: OpenPage, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs_service.start_fit(
        dataset_with_labels(), "bayesian_gplvm", {"max_iter": 5000, "n_inducing": 60}
    )
    with monkeypatch.context() as patch:
        patch.setattr(runs_service, "cancel", refuse)
        page = open_page("fit", run=run)
        page.button(widget_key("fit", run, "cancel")).click().run()
        assert not page.exception
        assert "No space left" in texts(page.error)
    page.button(widget_key("fit", run, "cancel")).click().run()
    wait(run)
    page.run()
    assert "No space left" not in texts(page.error)


def refuse(run: str, *, patience: float) -> None:
    raise DataError("The run could not be told to stop: No space left on device.")


def test_a_cancel_that_fails_for_one_run_reaches_the_others(
    session_state: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def cancel(run: str, *, patience: float) -> None:
        asked.append(run)
        if run == "b":
            refuse(run, patience=patience)

    monkeypatch.setattr(runs_service, "cancel", cancel)
    derived_run.stop_runs(["a", "b", "c"], "problem")
    assert asked == ["a", "b", "c"]
    assert "No space left" in str(session_state.get("problem"))
    derived_run.stop_runs(["a"], "problem")
    assert session_state.get("problem") is None


def test_a_queued_fit_says_its_place(open_page: OpenPage, wait: Wait) -> None:
    settings = {"max_iter": 5000, "n_inducing": 60}
    runs = [
        runs_service.start_fit(dataset_with_labels(), "bayesian_gplvm", settings) for _ in range(3)
    ]
    page = open_page("fit", run=runs[-1])
    assert not page.exception
    said = texts(page.markdown) + texts(page.sidebar.markdown)
    waiting = server.store().get(runs[-1]).status == "queued"
    for run in reversed(runs):
        server.store().cancel(run)
    for run in runs:
        assert wait(run).status in ("cancelled", "done")
    assert waiting
    assert "queued" in said


@pytest.mark.slow
def test_data_that_cannot_be_used_lead_back_to_the_data_page(open_page: OpenPage) -> None:
    page = open_page("data")
    content = b"a,b\nx,some long text\ny,and more\nz,end\n"
    page.file_uploader(widget_key("data", "upload")).set_value(("w.csv", content, "text/csv"))
    page.run()
    page.switch_page(navigation.PAGES["fit"]).run()
    assert not page.exception
    assert len(page.error) == 1
    follow(page, "Choose data")
    assert page.title[0].value == "Data"


@pytest.mark.slow
def test_the_advised_settings_are_shown_with_their_reasons(open_page: OpenPage) -> None:
    page = open_page("data")
    (sample,) = [box for box in page.selectbox if box.label == "Or a sample"]
    sample.set_value("digits").run()
    page.switch_page(navigation.PAGES["fit"]).run()
    assert not page.exception
    said = texts(page.caption).replace("\\", "")
    assert "Settings for this table" in said
    assert "Noise: shared, as some of 64 columns hardly vary" in said
    assert "Inducing inputs: 50, as 1\u202f797 rows" in said
    assert "Settings for this table" not in texts(open_page("fit").caption)
