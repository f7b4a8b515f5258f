"""The benchmark of promised gains, on small fits."""

from collections.abc import Iterator

import numpy as np
import pytest

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import verdict
from lvmcore.models.latent.qep_lvm import QEPLVM

X = np.random.default_rng(0).normal(size=(40, 5))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(verdict, "TABLES", ("noise",))
    monkeypatch.setattr(verdict, "_load", lambda table: X.copy())
    monkeypatch.setattr(verdict, "STOPS", (70, 10_000))
    monkeypatch.setattr(verdict, "STEPS", 110)
    yield
    verdict._of_fit.cache_clear()


def measured() -> list[BenchmarkRow]:
    return [make() for make in verdict.rows(Options())]


def test_a_promise_is_set_beside_what_the_steps_brought() -> None:
    (promise,) = verdict._of_fit("noise", QEPLVM, False, 5)
    fit = QEPLVM(n_components="ard", noise="column", max_iter=110, random_state=5).fit(X)
    bounds = [step.objective for step in fit.history_]
    assert promise.gain == bounds[min(len(bounds), 70 + 35) - 1] - bounds[69]
    assert 0 < promise.least < promise.most
    assert promise.held == (promise.least <= promise.gain <= promise.most)


def test_broken_promises_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    share, of_all, width = measured()
    assert share.value == of_all.value
    assert width.holds is True
    assert width.settings["promises"] == of_all.settings["promises"] > 0
    verdict._of_fit.cache_clear()
    monkeypatch.setattr("lvmcore.runs.continuation._FINISH_SHARES", (1e3, 1e4))
    _, of_all, width = measured()
    assert (of_all.value, of_all.holds) == (0.0, False)
    assert width.value == pytest.approx(2 * 9 / 11)


def test_converged_fits_promise_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "STOPS", (10_000,))
    assert all(np.isnan(row.value) for row in measured())


@pytest.mark.parametrize("name", ["breast cancer", "digits"])
def test_tables_are_short(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    first, again = verdict._load(name), verdict._load(name)
    assert len(first) == {"breast cancer": 569, "digits": 400}[name]
    first[0] = np.nan  # a copy
    assert np.isfinite(again).all()
