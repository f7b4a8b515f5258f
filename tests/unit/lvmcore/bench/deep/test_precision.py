"""The comparison of precisions: paired differences, with limits from the figure in double."""

from typing import Any

import pytest

from lvmcore.bench.deep import precision
from lvmcore.bench.harness.report import Options


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of three splits: 1, 2 and 3 in double, 0.1, 0.2 and 0.3 more in others."""

    def figure(model: str, data: str, kind: str) -> precision._Figure:
        del model, data
        more = 0.0 if kind == "float64" else 0.1
        return precision._Figure(tuple(v * (1 + more) for v in (1.0, 2.0, 3.0)), (4.0, 6.0, 5.0))

    monkeypatch.setattr(precision, "_figure", figure)


@pytest.mark.usefixtures("figures")
def test_a_row_is_the_mean_of_paired_differences() -> None:
    row = precision._difference("SVGP", "boston", "mixed")
    assert row.value == pytest.approx(0.2)
    assert row.spread == pytest.approx(0.1)
    assert row.ceiling == 1.0
    assert row.holds
    assert row.reference == "double 2.000 ± 1.000; 5.0 s a fit, double 5.0 s"


@pytest.mark.usefixtures("figures")
def test_every_model_and_table_has_its_rows() -> None:
    names = [maker().name for maker in precision.rows(Options())]
    assert len(names) == len(set(names)) == 3 + 2 * 2 * len(precision.TABLES)
    assert len(list(precision.rows(Options(full=True)))) == len(names) + 8


@pytest.mark.parametrize("name", ["SVGP", "DSVI"])
def test_models_have_the_settings_of_the_published_tables(name: str) -> None:
    model: Any = precision._predictor(name, 400, 13, "mixed", 2)
    assert (model.n_inducing, model.dtype, model.random_state) == (50, "mixed", 2)


def test_figures_are_measured_for_a_short_table(monkeypatch: pytest.MonkeyPatch, rng: Any) -> None:
    cells = rng.standard_normal((40, 3))
    monkeypatch.setattr(precision, "load_table", lambda data: cells)
    monkeypatch.setattr(precision, "M_SHORT", 5)
    found = precision._target_densities("SVGP", "boston", "float64")
    assert len(found.values) == len(found.seconds) == len(precision.SPLITS)
    assert all(seconds > 0 for seconds in found.seconds)
