"""Which model the Fit page recommends, and which it refuses."""

from dataclasses import replace

import pytest

from app.cards import Shape, card_of, recommend, refusal
from lvmcore.models import MODELS

CARDS = tuple(card_of(model) for model in MODELS.values())
TABLE = Shape(rows=200, columns=12, classes=3, unlabelled=0, incomplete=0)


@pytest.mark.parametrize(
    ("shape", "key", "word"),
    [
        (TABLE, "ldgd", "3 classes"),
        (replace(TABLE, classes=0), "bayesian_gplvm", "no label"),
        (replace(TABLE, rows=12), "ppca", "small"),
        (replace(TABLE, rows=12, incomplete=188), "ldgd", "3 classes"),
        (replace(TABLE, rows=0, incomplete=12), "ppca", "12 rows"),
        (replace(TABLE, columns=2, classes=0), "ppca", "2 columns"),
    ],
)
def test_the_recommendation_suits_the_table_and_says_why(shape: Shape, key: str, word: str) -> None:
    chosen, reason = recommend(CARDS, shape)
    assert chosen == key
    assert word in reason


def test_a_model_that_learns_from_labels_needs_two_classes() -> None:
    card = next(card for card in CARDS if card.needs_labels)
    assert refusal(card, TABLE) is None
    assert "label column" in (refusal(card, replace(TABLE, classes=0)) or "")
    assert "two classes" in (refusal(card, replace(TABLE, classes=1)) or "")


def test_settings_suit_the_rows_that_the_model_can_use() -> None:
    card = next(card for card in CARDS if card.key == "bayesian_gplvm")
    assert card.suggest(replace(TABLE, rows=900)) == {}
    assert card.suggest(replace(TABLE, rows=900, incomplete=900)) == card.suggest(
        replace(TABLE, rows=1800)
    )


def test_a_table_without_complete_rows_is_refused_where_cells_may_not_be_missing() -> None:
    for card in CARDS:
        refused = refusal(card, replace(TABLE, rows=0, incomplete=200))
        assert (refused is None) == card.missing_cells


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_a_card_says_what_the_model_declares(card: object) -> None:
    found = next(c for c in CARDS if c is card)
    can = MODELS[found.key].capabilities
    assert ("learns from labels" in found.supports) == (can.labels != "none")
    assert ("places new rows" in found.supports) == can.new_rows
    assert found.summary
    assert found.suggest(TABLE).keys() <= {parameter.name for parameter in found.parameters}
