"""The benchmark of q-exponential processes: its truths, its splits and what it computes."""

from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lvmcore.bench.deep import qep_uci_tables
from lvmcore.bench.harness.report import Options


def people(n: int = 60) -> pd.DataFrame:
    """Voices of twelve people: number of the person, a word, a number, the target."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "f0": np.repeat(np.arange(12.0), n // 12),
            "word": rng.choice(["a", "b", "c"], n),
            "x": rng.normal(size=n),
            "target": rng.normal(size=n),
        }
    )


def test_new_people_are_in_no_row_of_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qep_uci_tables, "_frame", lambda data: people())
    who = people()["f0"].to_numpy()
    for seen, held in qep_uci_tables._splits("parkinsons, new people", full=False):
        assert not set(who[seen]) & set(who[held])
        assert len(seen) + len(held) == 60
    for seen, held in qep_uci_tables._splits("parkinsons", full=False):
        assert sorted([*seen, *held]) == list(range(60))
        assert len(held) == 6
    # Their number is no column; a word is three.
    assert qep_uci_tables._columns("parkinsons").shape == (60, 5)
    assert qep_uci_tables._columns("parkinsons, new people").shape == (60, 4)


class Constant:
    """A model of a number that knows the mean of its rows, or of classes their shares."""

    def fit(self, X: Any, y: Any) -> Self:
        del X
        self.y = y
        self.classes_, counts = (
            np.unique(y, return_counts=True) if y.dtype.kind in "OU" else (None, np.ones(1))
        )
        self.share = counts / counts.sum()
        return self

    def predict_quantiles(self, X: Any, levels: Any) -> Any:
        return np.full((len(X), len(levels)), self.y.mean())

    def log_density(self, X: Any, y: Any) -> Any:
        del X
        return np.full(len(y), -2.0)

    def predict_proba(self, X: Any) -> Any:
        return np.tile(self.share, (len(X), 1))

    def get_params(self) -> dict[str, Any]:
        return {}


def test_a_row_of_a_number_is_the_mean_absolute_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qep_uci_tables, "_frame", lambda data: people())
    monkeypatch.setattr(qep_uci_tables, "_model", lambda *_, **__: Constant())
    y = people()["target"].to_numpy()
    errors = [
        np.abs(y[held] - y[seen].mean()).mean() / y[seen].std()
        for seen, held in qep_uci_tables._splits("protein", full=False)
    ]
    row = qep_uci_tables._number("protein", "deep GP", full=False)
    assert row.value == pytest.approx(np.mean(errors))
    assert row.spread == pytest.approx(np.std(errors, ddof=1) / np.sqrt(len(errors)))
    assert row.reference.startswith(
        "paper deep Q-EP 0.35, deep GP 0.39, DKL-GP 0.37, DSPP 0.48; NLPP 2.000 nats a row"
    )


def test_the_kernel_of_the_largest_bound_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel(Constant):
        """Predicts 0 with the kernel of the largest bound, else the mean."""

        def __init__(self, kernel: str) -> None:
            self.kernel = kernel
            self.elbo_ = {"matern32": -30.0, "linear + rbf": -10.0}.get(kernel, -20.0)

        def predict_quantiles(self, X: Any, levels: Any) -> Any:
            found = super().predict_quantiles(X, levels)
            return np.zeros_like(found) if self.kernel == "linear + rbf" else found

        def get_params(self) -> dict[str, Any]:
            return {"kernel": self.kernel}

    monkeypatch.setattr(qep_uci_tables, "_frame", lambda data: people())
    monkeypatch.setattr(qep_uci_tables, "_model", lambda *_, kernel, **__: Kernel(kernel))
    y = people()["target"].to_numpy()
    row = qep_uci_tables._chosen_kernel("elevators", full=False)
    splits = qep_uci_tables._splits("elevators", full=False)
    assert row.value == pytest.approx(np.mean([np.abs(y[held]).mean() for _, held in splits]))
    assert row.settings["kernel"] == "linear + rbf"


def test_a_row_of_classes_has_the_true_class_s_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = people(240)[["word", "x"]].assign(label=np.where(np.arange(240) % 3, "yes", "no"))
    monkeypatch.setattr(qep_uci_tables, "_frame", lambda data: frame)
    monkeypatch.setattr(qep_uci_tables, "_model", lambda *_, **__: Constant())
    row = qep_uci_tables._class("car", "deep Q-EP", full=False)
    y = frame["label"].to_numpy()
    yes = [np.mean(y[held] == "yes") for _, held in qep_uci_tables._splits("car", full=False)]
    assert row.value == pytest.approx(np.mean(yes))
    assert "AUC 0.5000, " in row.reference


def test_the_area_is_that_of_each_class_that_is_there() -> None:
    rng = np.random.default_rng(0)
    truth, classes = rng.choice(["a", "b", "c"], 50), np.array(["a", "b", "c", "never"])
    probability = rng.dirichlet(np.ones(4), 50)
    three = probability[:, :3] / probability[:, :3].sum(1, keepdims=True)
    found = qep_uci_tables._mean_auc(truth, classes, probability)
    each = [roc_auc_score(truth == one, probability[:, at]) for at, one in enumerate("abc")]
    assert found == pytest.approx(np.mean(each))
    wanted = roc_auc_score(truth, three, multi_class="ovr", labels=["a", "b", "c"])
    assert qep_uci_tables._mean_auc(truth, classes[:3], three) == pytest.approx(wanted)


def test_every_row_of_the_bench_is_measured_once() -> None:
    from lvmcore.bench import BENCHES
    from lvmcore.bench.harness.report import _key

    keys = [_key(maker) for maker in BENCHES["qep"](Options())]
    assert len(set(keys)) == len(keys)
    assert {key.split()[0] for key in keys} == {
        "series",
        "rhombus",
        "oil_flow",
        "step",
        "pictures",
        "number",
        "chosen_kernel",
        "class",
    }
