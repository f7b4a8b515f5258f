"""Runs beside one another: names, settings, differences, sizes; and their curves in one chart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.analysis.tables import run_history
from app.figures import live_charts
from app.figures.theme import category
from app.services import model_cards
from lvmcore.results import FitStep
from lvmcore.runs import Job, JobSpec
from lvmcore.runs.job import now

MOMENT = now()


@pytest.fixture(scope="module")
def cards() -> run_history.Cards:
    return {card.key: card for card in model_cards.cards()}


def job(number: int, model: str = "ldgd", name: str = "run", **settings: Any) -> Job:
    """The n-th run in time."""
    dataset = settings.pop("dataset", "0" * 64)
    return Job(
        id=f"{number:032x}",
        spec=JobSpec(dataset, "toy", model, settings, name=name),
        status="done",
        stage="finished",
        submitted=MOMENT + timedelta(seconds=number),
    )


def called(cards: run_history.Cards, *jobs: Job) -> list[str]:
    return list(run_history.run_names(jobs, cards).values())


def test_only_what_is_not_the_default_is_named(cards: run_history.Cards) -> None:
    assert run_history.changed_settings(job(1, learning_rate=0.1, n_components=None), cards) == ""
    text = run_history.changed_settings(
        job(1, random_state=None, learning_rate=0.05, n_inducing=30), cards
    )
    assert text == "inducing inputs 30, learning rate 0.05, seed none"
    assert run_history.changed_settings(job(1, "tarot", cards=22, upright=True), cards) == (
        "cards 22, upright yes"
    )


def test_runs_of_one_name_are_told_apart(cards: run_history.Cards) -> None:
    one, two = job(1, n_inducing=30), job(2)
    assert called(cards, two, one) == ["run, inducing inputs auto", "run, inducing inputs 30"]
    same = job(3, n_inducing=30)
    assert called(cards, same, two, one) == [
        "run, inducing inputs 30 (2)",
        "run, inducing inputs auto",
        "run, inducing inputs 30 (1)",
    ]
    assert called(cards, job(1), job(2, name="other")) == ["run", "other"]


def test_a_setting_that_one_model_lacks_makes_no_difference(cards: run_history.Cards) -> None:
    apart = run_history.setting_differences([job(1), job(2, "ppca", "linear")], cards)
    assert apart.to_dict("list") == {
        "Run": ["run", "linear"],
        "Model": ["LDGD", "Probabilistic PCA"],
    }
    assert list(run_history.setting_differences([job(1), job(2)], cards)) == ["Run"]


def test_different_data_of_one_name_are_told_apart(cards: run_history.Cards) -> None:
    apart = run_history.setting_differences([job(1), job(2, dataset="ab" * 32)], cards)
    assert apart["Data"].tolist() == ["toy (000000)", "toy (ababab)"]


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (812, "812 bytes"),
        (1000, "1.0 kB"),
        (1_449_000, "1.4 MB"),
        (99_700_000, "100 MB"),
        (999_800_000, "1.0 GB"),
        (2 * 10**16, "20000 TB"),
    ],
)
def test_sizes(n: int, text: str) -> None:
    assert run_history.readable_size(n) == text


def steps(n: int, start: float) -> list[FitStep]:
    return [
        FitStep(i, n, i / 8, start + i, {"data": start, "KL": float(i)}) for i in range(1, n + 1)
    ]


def test_the_curves_of_several_runs_keep_their_own_points_and_looks() -> None:
    curves = {f"run {k}": steps(5 + k, -10.0 * k) for k in range(9)}
    options = live_charts.overlay_chart(curves)
    assert [line["name"] for line in options["series"]] == list(curves)
    assert options["series"][2]["data"] == [[i, -20.0 + i] for i in range(1, 8)]
    looks = {(line["color"], line["lineStyle"]["type"]) for line in options["series"]}
    assert len(looks) == 9
    assert options["series"][8]["color"] == category(0, dark=False)[0]
    assert options["xAxis"]["name"] == "step"
    timed = live_charts.overlay_chart(curves, by_seconds=True, dark=True)
    assert timed["series"][0]["data"] == [[i / 8, float(i)] for i in range(1, 6)]
    assert timed["xAxis"]["name"].startswith("seconds")


def test_a_single_point_is_drawn_as_one() -> None:
    options = live_charts.overlay_chart({"one": steps(1, 0.0), "more": steps(4, 0.0)})
    assert [line["showSymbol"] for line in options["series"]] == [True, False]


def test_runs_match_by_words_of_every_column_and_by_tags(cards: run_history.Cards) -> None:
    runs = [
        replace(job(1, name="First try"), tags=("paper", "old"), note="too few steps"),
        replace(job(2, "ppca", name="second"), tags=("paper",)),
        job(3, n_inducing=30, name="third"),
    ]

    def matching(text: str, *tags: str) -> list[str]:
        return [one.name for one in run_history.matching_runs(runs, cards, text, tags)]

    assert matching("") == ["First try", "second", "third"]
    assert matching("  FIRST ") == ["First try"]
    assert matching("probabilistic") == ["second"]
    assert matching("toy ldgd") == ["First try", "third"]
    assert matching("inducing 30") == ["third"]
    assert matching("few") == ["First try"]
    assert matching("defaults paper") == ["First try", "second"]
    assert matching("", "paper") == ["First try", "second"]
    assert matching("", "paper", "old") == ["First try"]
    assert matching("second", "old") == []
    table = run_history.run_table(runs, cards, {})
    assert table["Tags"].tolist() == [["paper", "old"], ["paper"], []]
    assert "Tags" not in run_history.run_table(runs[2:], cards, {})
