"""Maps of the methods that the SRFLVM paper compares with, here on a small table."""

from types import ModuleType

import pytest
from sklearn.datasets import load_wine

from lvmcore.bench.harness.report import Options
from lvmcore.models import MODELS

# The module of the paper's tables imports umap, which warns of a package that it does not need.
pytestmark = pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")


@pytest.fixture
def map_methods() -> ModuleType:
    from lvmcore.bench.random_features import map_methods

    return map_methods


@pytest.mark.slow
def test_every_method_has_the_figure_of_every_table(map_methods: ModuleType) -> None:
    for method, figures in map_methods.PAPER.items():
        assert method in MODELS
        assert set(figures) == set(map_methods.DATASETS)
    rows = list(map_methods.rows(Options()))
    assert len(rows) == len(map_methods.PAPER) * len(map_methods.DATASETS)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pca", "vae", "cvq_vae"])
def test_a_row_is_measured(
    method: str, map_methods: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(map_methods, "load_table", lambda data: (X, y))
    monkeypatch.setattr(map_methods, "SEEDS", range(1))
    monkeypatch.setitem(map_methods.PAPER[method], "bridges", (0.5, 0.25))
    row = map_methods._accuracy(method, "bridges")
    assert 0.85 < row.value <= 1
    assert row.reference == "paper 0.500 ± 0.250"
    assert row.settings["model"] == method
