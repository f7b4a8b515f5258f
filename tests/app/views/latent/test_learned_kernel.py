"""The learned kernel on the Latent page, of a fit to counts; nothing for a model that has none."""

from __future__ import annotations

import numpy as np
import pytest

from app.services import server
from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec
from tests.app.conftest import OpenPage
from tests.app.views.latent.test_page import texts


def ran(**settings: object) -> str:
    """A fit of SRFLVM to counts, in this process."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 40)
    counts = rng.poisson(np.exp(1 + np.sin(x[:, None] + np.arange(5)))).astype(float)
    dataset = Dataset.from_arrays(counts, name="counts")
    store = server.store()
    store.datasets.put(dataset)
    parameters = {"likelihood": "negative_binomial", "max_iter": 30, "n_features": 10, **settings}
    spec = JobSpec(dataset.digest, dataset.name, "srflvm", parameters)
    with store.own(spec) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        return folder.path.name


@pytest.fixture(scope="module")
def run(shared_home: object) -> str:
    del shared_home  # where it is kept
    return ran()


def charts(page: object) -> list[str]:
    return [chart.proto.spec for chart in page.get("plotly_chart")]  # type: ignore[attr-defined]


def test_the_kernel_is_folded_away_and_drawn_when_asked(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    assert not page.exception
    before = charts(page)
    assert "Correlation of the columns" not in texts(page)
    page.session_state[f"latent:{run}:kernel"] = True
    page.run()
    assert not page.exception
    assert "Correlation of the columns" in texts(page)
    added = [spec for spec in charts(page) if spec not in before]
    assert any("distance on the map" in spec and "dimension 2" in spec for spec in added)
    assert any("frequency along dimension" in spec for spec in added)


def test_a_map_of_one_dimension_has_a_kernel_and_no_plane_of_frequencies(
    open_page: OpenPage, shared_home: object
) -> None:
    del shared_home
    one = ran(n_components=1)
    page = open_page("latent", run=one)
    page.session_state[f"latent:{one}:kernel"] = True
    page.run()
    assert not page.exception
    assert any("distance on the map" in spec for spec in charts(page))
    assert not any("frequency along" in spec for spec in charts(page))


def test_a_model_without_a_learned_kernel_has_no_such_section(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    assert not page.exception
    assert "The learned kernel" not in [box.label for box in page.expander]


def test_a_given_kernel_has_hyperparameters(open_page: OpenPage, shared_home: object) -> None:
    del shared_home
    given = ran(kernel="matern12(z1) + cosine(z2)")
    page = open_page("latent", run=given)
    page.session_state[f"latent:{given}:kernel"] = True
    page.run()
    assert not page.exception
    assert "The kernel and its spectrum" in [box.label for box in page.expander]
    assert "`matern12(z1)`: " in texts(page)
    assert "% of the variance, lengthscale along z1 " in texts(page)
    assert "the area of a point" in texts(page)
    assert any("frequency along dimension" in spec for spec in charts(page))
