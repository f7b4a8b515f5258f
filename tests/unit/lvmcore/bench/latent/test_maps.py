"""Benchmarks of maps without labels, on small fits."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_s_curve

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import first_fit, maps, unlabelled_tables
from lvmcore.bench.latent.unlabelled_tables import UnlabelledTable, load_table
from lvmcore.data.dataset import Dataset
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM

X, ALONG = make_s_curve(60, noise=0.05, random_state=0)
CURVE = UnlabelledTable(
    Dataset.from_arrays(X, name="curve"), np.where(ALONG > 0, "a", "b").astype(object)
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (maps, first_fit):
        monkeypatch.setattr(module, "TABLES", ("curve",))
        monkeypatch.setattr(module, "load_table", lambda name: CURVE)
    monkeypatch.setattr(maps, "GP_MAPS", ("bayesian_gplvm",))
    monkeypatch.setattr(first_fit, "MODELS", (BayesianGPLVM,))
    monkeypatch.setattr(first_fit, "LONGER", 1)
    yield
    for cached in (maps._scores, first_fit._fit, first_fit._longer_bound):
        cached.cache_clear()


def measured(module: object) -> list[BenchmarkRow]:
    return [make() for make in module.rows(Options())]  # type: ignore[attr-defined]


def test_a_map_is_set_beside_that_of_umap_and_of_pca() -> None:
    accuracy, trust, beside_pca = measured(maps)
    assert accuracy.name == "curve: 1-NN accuracy of the recommended map, less that of UMAP"
    assert accuracy.settings["model"] == "bayesian_gplvm"
    assert (accuracy.floor, trust.floor, beside_pca.floor) == (-0.02, -0.01, 0.0)
    ours = maps._scores("curve", "bayesian_gplvm", 0)
    for row, measure in ((accuracy, "1-NN accuracy"), (trust, "trustworthiness")):
        theirs = maps._scores("curve", "umap", 0)[measure]
        assert row.value == pytest.approx(ours[measure] - theirs)
    linear = maps._scores("curve", "pca", 0)
    assert beside_pca.value == min(ours[name] - linear[name] for name in ours)


def test_the_scored_places_are_the_two_shown_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(maps, "knn_accuracy", lambda places, y: seen.append(places.shape) or 1.0)
    maps._scores("curve", "pca", 0)  # it has three dimensions
    assert seen == [(60, 2)]


def test_a_default_fit_is_judged_by_its_end() -> None:
    converged, polished, gap, seconds = measured(first_fit)
    assert converged.value == 1.0
    assert abs(polished.value) < polished.ceiling  # type: ignore[operator]
    assert gap.value == 0.0  # the longer fit is the same
    assert seconds.value > 0
    assert all(row.holds is not False for row in (converged, polished, gap))


def test_a_fit_that_stopped_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(BayesianGPLVM):
        """Ten steps for a default fit."""

        def _schedule(self, cells: int):  # type: ignore[no-untyped-def]
            steps = 10 if self.max_iter == 900 else self.max_iter
            return replace(super()._schedule(cells), max_iter=steps)

    monkeypatch.setattr(first_fit, "MODELS", (Short,))
    monkeypatch.setattr(first_fit, "LONGER", 2)
    converged, polished, gap, _ = measured(first_fit)
    assert (converged.value, converged.holds) == (0.0, False)
    assert np.isnan(polished.value)
    assert gap.value > 0.1
    assert gap.holds is False


@pytest.mark.parametrize("name", ["wine", "moons", "S-curve"])
def test_no_label_is_among_the_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    table = load_table(name)
    assert table.dataset.labels is None
    assert table.X.shape[0] == len(table.labels)
    assert len(set(table.labels)) in (2, 3)
    np.testing.assert_allclose(table.standardised.std(axis=0), 1)
    assert name in unlabelled_tables.TABLES
