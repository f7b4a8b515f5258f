"""What the Fit page says about models: which it recommends, refuses, and by which route they go."""

from dataclasses import replace

import pytest

from app.analysis.tables.model_cards import map_card, recommend, refusal, route
from lvmcore.models import MODELS
from lvmcore.recommend.latent_models import TableSummary, propose

CARDS = tuple(map_card(model) for model in MODELS.values())
TABLE = TableSummary(rows=200, columns=12, classes=3, unlabelled=0, incomplete=0)


def test_the_recommendation_is_the_engine_s() -> None:
    for shape in (TABLE, replace(TABLE, classes=0), replace(TABLE, rows=12)):
        assert recommend(CARDS, shape) == propose(MODELS, shape)


def test_the_route_goes_by_the_settings_of_the_form() -> None:
    card = next(card for card in CARDS if card.key == "fast_ldgd")
    assert "50 of 200 rows" in str(route(CARDS, card, TABLE, {"batch_size": 50}))
    assert "one batch" in str(route(CARDS, card, TABLE, {"batch_size": 500}))
    card = next(card for card in CARDS if card.key == "ldgd")
    assert "all 200 rows" in str(route(CARDS, card, TABLE, {}))


def test_a_model_that_learns_from_labels_needs_two_classes() -> None:
    card = next(card for card in CARDS if card.needs_labels)
    assert refusal(card, TABLE) is None
    assert "label column" in (refusal(card, replace(TABLE, classes=0)) or "")
    assert "two classes" in (refusal(card, replace(TABLE, classes=1)) or "")


def test_a_model_of_amounts_says_why_it_takes_no_cells_below_0() -> None:
    card = next(card for card in CARDS if card.key == "nmf")
    assert refusal(card, replace(TABLE, cells="positive")) is None
    assert "some are below 0" in (refusal(card, TABLE) or "")


def test_settings_suit_the_rows_that_the_model_can_use() -> None:
    card = next(card for card in CARDS if card.key == "bayesian_gplvm")
    usual = {"n_components": 2, "n_inducing": 100, "noise": "shared", "inducing_layout": "grid"}
    assert card.suggest(replace(TABLE, rows=900)) == usual
    gaps = {"n_components": "ard", "n_inducing": 50, "noise": "column", "inducing_layout": "free"}
    assert card.suggest(replace(TABLE, rows=900, incomplete=900)) == gaps


def test_a_table_without_complete_rows_is_refused_where_cells_may_not_be_missing() -> None:
    for card in CARDS:
        refused = refusal(card, replace(TABLE, rows=0, incomplete=200, cells="counts"))
        assert (refused is None) == card.missing_cells


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_a_card_says_what_the_model_declares(card: object) -> None:
    found = next(c for c in CARDS if c is card)
    can = MODELS[found.key].capabilities
    assert ("learns from labels" in found.supports) == (can.labels != "none")
    assert ("new rows" in found.supports) == can.new_rows
    assert found.summary
    assert found.suggest(TABLE).keys() <= {parameter.name for parameter in found.parameters}


def test_the_advice_says_what_is_set_and_why() -> None:
    wide = replace(TABLE, rows=1797, columns=64, classes=10)
    advice = map_card(MODELS["ldgd"]).advice(wide)
    (components, inducing, noise, likelihood) = advice
    assert noise.startswith("Noise: shared, as some of 64 columns")
    assert components.startswith("Dimensions: 20, as 10 classes")
    assert "softmax, as 10 classes" in likelihood
    assert "50, as 1,797 rows" in inducing
    assert map_card(MODELS["ldgd"]).advice(TABLE) == ()
