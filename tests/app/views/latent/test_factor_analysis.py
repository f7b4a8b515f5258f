"""The pages about models that take nothing below 0, or counts alone."""

import numpy as np
import pytest

from app.services import server
from app.views.fit.model_choice import MODEL
from lvmcore.data import Dataset
from lvmcore.models import MODELS
from tests.app.conftest import OpenPage
from tests.app.report.test_download import ran
from tests.app.views.data.test_page import upload


def counts() -> Dataset:
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.6, 10.0, (60, 3)) @ rng.dirichlet(np.full(6, 0.5), 3)
    return Dataset.from_arrays(rng.poisson(rates).astype(float), name="counts")


@pytest.mark.slow(quick=["nmf"])
@pytest.mark.parametrize("model", ["nmf", "topics", "hpf", "nbvae"])
def test_a_map_of_counts_is_shown_decoded_and_drawn_from(model: str, open_page: OpenPage) -> None:
    settings = {"n_components": 3, "max_iter": 60} | ({"n_hidden": 8} if model == "nbvae" else {})
    run = ran(counts(), model, **settings)
    assert server.store().get(run).status == "done"
    for name in ("fit", "latent", "generate"):
        page = open_page(name, run=run)
        assert not page.exception
        assert not page.error


@pytest.mark.parametrize(
    ("cell", "refused"),
    [("-1", {"nmf", "topics", "hpf", "nbvae"}), ("0.5", {"topics", "hpf", "nbvae"})],
)
def test_a_model_that_does_not_take_the_cells_is_not_offered(
    cell: str, refused: set[str], open_page: OpenPage
) -> None:
    rows = "\n".join(f"{i % 7},{i % 5},{i % 3}" for i in range(40))
    page = upload(open_page("data"), "cells.csv", f"a,b,c\n{rows}\n{cell},1,2\n".encode())
    page.switch_page("views/fit/page.py").run()
    assert not page.exception
    titles = {key: MODELS[key].title for key in ("nmf", "topics", "hpf", "nbvae", "pca")}
    options = page.selectbox(MODEL).options
    offered = {key for key, title in titles.items() if any(f"{title}: " in one for one in options)}
    assert titles.keys() - offered == refused
