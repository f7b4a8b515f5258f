"""Small maps in the colours of several columns."""

import pytest
from streamlit.testing.v1 import AppTest

from app.services import tables
from app.state import choices
from app.views.latent.column_maps import FIRST
from tests.app.conftest import OpenPage, fitted_run


@pytest.fixture(scope="module")
def run(shared_home: object) -> str:
    table = tables.table(choices.SampleChoice("wine"), choices.ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    return fitted_run(dataset, "ppca", {"n_components": 2})


def small_maps(page: AppTest) -> list[str]:
    keys = (str(chart.key) for chart in page.get("plotly_chart"))
    return [key.rpartition("by column ")[2] for key in keys if ":by column " in key]


def test_the_columns_that_the_map_shows_best_come_first(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    assert not small_maps(page)  # nothing is drawn before the panel is opened
    page.session_state[f"latent:{run}:by column"] = True  # as a click on the expander does
    page.run()
    assert not page.exception
    first = small_maps(page)
    assert len(first) == FIRST
    assert {"flavanoids", "proline"} <= set(first)
    assert "ash" not in first
    page.multiselect(key=f"latent:{run}:columns of small maps").set_value([2]).run()
    assert not page.exception
    assert small_maps(page) == ["ash"]
