"""The order of the levels of a category on the Data page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.services import tables
from app.state.choices import RoleChoices
from app.views.data import column_roles
from app.views.data.level_order import level_orders, moved, with_level_order
from lvmcore.data import Table
from lvmcore.data.column_likelihoods import likelihood_text
from tests.app.conftest import OpenPage
from tests.app.views.data.test_column_roles import edit, used
from tests.app.views.data.test_page import choose, texts, upload

ROLES = RoleChoices(("x", "size", "colour"), None, None, one_hot=("size", "colour"))


@pytest.fixture(scope="module")
def table() -> Table:
    """Sizes of a known scale, colours without one, and a category that is no feature."""
    frame = pd.DataFrame(
        {
            "x": np.arange(12.0) ** 2,
            "size": ["low", "medium", "high"] * 4,
            "colour": ["red", "green", "blue", "red"] * 3,
            "kind": ["u", "v", "w"] * 4,
        }
    )
    return Table.from_frame(frame, name="sizes")


def test_levels_move_within_the_order() -> None:
    assert moved("abc", "c", -1) == ["a", "c", "b"]
    assert moved("abc", "a", -1) == ["a", "b", "c"]
    assert moved("abc", "a", 1) == ["b", "a", "c"]
    assert moved("abc", "c", 1) == ["a", "b", "c"]


def test_only_one_hot_features_have_levels_to_order(table: Table) -> None:
    assert level_orders(table, ROLES) == {
        "size": ("low", "medium", "high"),
        "colour": ("blue", "green", "red"),
    }
    assert level_orders(table, replace(ROLES, one_hot=())) == {}


def test_an_order_makes_the_likelihood_ordinal_and_back(table: Table) -> None:
    order = ["green", "blue", "red"]
    now = with_level_order(table, ROLES, "colour", order)
    assert now.likelihoods == (("colour", "ordinal(green < blue < red)"),)
    assert column_roles.ordinal_columns(table, now) == ["size", "colour"]
    assert level_orders(table, now)["colour"] == tuple(order)
    dataset = tables.dataset_of(table, now)
    assert likelihood_text(dataset).endswith("ordinal(3), ordinal(green < blue < red)")
    # The proposed order of levels is not stored; of colours the likelihood stays ordinal.
    back = with_level_order(table, now, "colour", ["blue", "green", "red"])
    assert back.likelihoods == (("colour", "ordinal"),)
    sizes = with_level_order(table, back, "size", ["high", "medium", "low"])
    assert dict(sizes.likelihoods)["size"] == "ordinal(high < medium < low)"
    assert with_level_order(table, sizes, "size", ["low", "medium", "high"]) == back


def test_another_likelihood_drops_the_order_and_the_same_one_keeps_it(table: Table) -> None:
    now = with_level_order(table, ROLES, "colour", ["green", "blue", "red"])
    shown = column_roles.likelihoods(table, now)
    assert column_roles.chosen_likelihoods(table, now, now, shown) == (now, None)
    shown[2] = "categorical"
    assert column_roles.chosen_likelihoods(table, now, now, shown) == (ROLES, None)


def _button(page: AppTest, title: str) -> None:
    next(button for button in page.button if button.label == title).click().run()
    assert not page.exception


def test_the_page_orders_levels_and_builds_the_features_in_that_order(open_page: OpenPage) -> None:
    rows = "".join(f"{k * k},{('low', 'mid', 'high')[k % 3]},{'ab'[k % 2]}\n" for k in range(12))
    page = upload(open_page("data"), "sizes.csv", f"x,size,kind\n{rows}".encode())
    choose(page, "Label", -1)
    edit(page.run(), 1, Feature=True)
    (radio,) = (one for one in page.radio if one.label.startswith("Levels"))
    assert radio.options == ["high", "low", "mid"]
    radio.set_value("high").run()
    _button(page, "Move down")
    _button(page, "Move down")
    (radio,) = (one for one in page.radio if one.label.startswith("Levels"))
    assert (radio.options, radio.value) == (["low", "mid", "high"], "high")
    assert "in the order that was set, low < mid < high" in texts(page.caption).replace("\\", "")
    assert used(page).feature_names == ("x", "size = low", "size = mid", "size = high")
    assert "(ordinal)" in next(s for s in page.selectbox if s.label == "Category").options[0]
    _button(page, "Proposed order")
    assert "order that was set" not in texts(page.caption)
