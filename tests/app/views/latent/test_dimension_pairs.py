"""Maps of every pair of the leading latent dimensions."""

import pytest
from streamlit.testing.v1 import AppTest

from app.services import tables
from app.state import choices
from lvmcore.data import Dataset
from tests.app.conftest import OpenPage, fitted_run


@pytest.fixture
def dataset(shared_home: object) -> Dataset:
    table = tables.table(choices.SampleChoice("wine"), choices.ReadingChoices())
    return tables.dataset_of(table, tables.proposed_roles(table))


def pairs(page: AppTest) -> list[str]:
    keys = (str(chart.key) for chart in page.get("plotly_chart"))
    return [key for key in keys if ":pair " in key]


@pytest.mark.parametrize(("components", "maps"), [(3, 3), (6, 6)])
def test_each_pair_of_the_leading_dimensions_has_a_map(
    dataset: Dataset, open_page: OpenPage, components: int, maps: int
) -> None:
    run = fitted_run(dataset, "ppca", {"n_components": components})
    page = open_page("latent", run=run)
    assert "Pairs of dimensions" in [box.label for box in page.expander]
    assert not pairs(page)  # nothing is drawn before the panel is opened
    page.session_state[f"latent:{run}:pairs"] = True  # as a click on the expander does
    page.run()
    assert not page.exception
    assert len(pairs(page)) == maps
    said = " ".join(one.value for one in page.markdown)
    assert "dimensions 1 and 2" in said
    assert ("2 more have at least 1 %" in " ".join(c.value for c in page.caption)) == (
        components == 6
    )


def test_a_map_of_two_dimensions_has_no_pairs(dataset: Dataset, open_page: OpenPage) -> None:
    page = open_page("latent", run=fitted_run(dataset, "ppca", {"n_components": 2}))
    assert "Pairs of dimensions" not in [box.label for box in page.expander]
