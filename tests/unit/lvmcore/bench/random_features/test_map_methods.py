"""Maps of the methods that the SRFLVM paper compares with, here on a small table."""

from collections.abc import Iterator
from types import ModuleType

import pytest
from sklearn.datasets import load_wine

from lvmcore.bench.harness.report import Options
from lvmcore.models import MODELS

# The module of the paper's tables imports umap, which warns of a package that it does not need.
pytestmark = pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")


@pytest.fixture
def map_methods() -> Iterator[ModuleType]:
    from lvmcore.bench.random_features import map_methods

    map_methods._fits.cache_clear()
    yield map_methods
    map_methods._fits.cache_clear()


@pytest.mark.slow
def test_every_method_has_the_figures_of_every_table(map_methods: ModuleType) -> None:
    from lvmcore.bench.random_features.srflvm import DATASETS

    for method, figures in map_methods.PAPER.items():
        key = method.split(", ")[0]
        assert key in MODELS
        # The chains of RFLVM take too long on the other tables.
        assert set(figures) == ({"bridges", "montreal"} if key == "rflvm" else set(DATASETS))
    rows = list(map_methods.rows(Options()))
    assert len(rows) == 2 * sum(len(figures) for figures in map_methods.PAPER.values())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pca", "vae"])
def test_a_row_is_measured(
    method: str, map_methods: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(map_methods, "load_table", lambda data: (X, y))
    monkeypatch.setattr(map_methods, "SEEDS", range(2))
    figures = map_methods.PaperFigures(accuracy=0.5, sd=0.25, seconds=12.5)
    monkeypatch.setitem(map_methods.PAPER[method], "bridges", figures)
    row = map_methods._accuracy(method, "bridges")
    assert 0.85 < row.value <= 1
    assert row.reference == "paper 0.500 ± 0.250"
    assert row.settings["model"] == method
    seconds = map_methods._seconds(method, "bridges")
    assert (seconds.unit, seconds.reference) == ("s", "paper 12.5 s")
    assert seconds.value > 0
    assert seconds.settings == {name: row.settings[name] for name in seconds.settings}


@pytest.mark.slow
def test_a_method_with_a_likelihood_has_the_columns_for_it(map_methods: ModuleType) -> None:
    settings = map_methods._settings("rflvm, negative_binomial", (50, 4), 3)
    assert settings["likelihood"] == "negative_binomial"
    assert settings["random_state"] == 3
    assert map_methods._settings("rflvm, gaussian", (50, 4), 3)["likelihood"] == "gaussian"
    assert map_methods._title("rflvm, negative_binomial") == "RFLVM, negative binomial"
