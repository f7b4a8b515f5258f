"""The pages about a map whose points are rounded to codes: a loss, no bound, no ellipses."""

import pytest

from app.services import server, tables
from app.state.choices import ReadingChoices, SampleChoice
from tests.app.conftest import OpenPage
from tests.app.report.test_download import ran
from tests.app.views.predict.test_page import texts


@pytest.mark.slow
def test_a_map_of_codes_is_shown_decoded_and_drawn_from(open_page: OpenPage) -> None:
    table = tables.table(SampleChoice("wine"), ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    run = ran(dataset, "cvq_vae", n_components=2, n_codes=20, n_hidden=8, max_iter=60)
    assert server.store().get(run).status == "done"
    for name in ("fit", "latent", "generate", "compare", "runs", "new_rows"):
        page = open_page(name, run=run)
        assert not page.exception, name
        assert not page.error, name
        if name == "fit":
            assert "Objective of the fit" in texts(page)
        if name == "latent":
            assert "this model has no bound" in texts(page)
    assert server.store().get(run).metrics["perplexity"].value > 1
