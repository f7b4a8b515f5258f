"""A fit whose rows are in shards is the fit of one machine, up to the order of sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore import LDGD, QEPLVM, BayesianGPLVM
from lvmcore.base.fit_problem import FitProblem
from lvmcore.errors import ConfigError
from lvmcore.gp.objective import GPLVMObjective, LDGDObjective, SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, GridDataPath, LabelPath
from lvmcore.gp.rows import label_draws
from lvmcore.gp.rows.placement import labelled_rows, placed_rows
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.qep.objective import QEPLVMObjective, QExponent
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.gp.rows.shards_here import use_shards_here

N, D, M = 40, 5, 9
SPLITS = [[17, N], [1, 30, N], [3, 4, 9, 11, 25, 39, N]]


def table() -> tuple[Tensor, Tensor, tuple[ClassLabels, ...]]:
    """Positions [N, 2], rows [N, D], and two label columns with labels missing."""
    draw = torch.Generator().manual_seed(4)
    X = torch.randn((N, 2), generator=draw, dtype=torch.float64)
    W = torch.randn((2, D), generator=draw, dtype=torch.float64)
    Y = (X @ W).sin() + 0.2 * torch.randn((N, D), generator=draw, dtype=torch.float64)
    kinds = np.where(X[:, 0] > 0, "a", np.where(X[:, 1] > 0, "b", "c")).astype(object)
    sizes = np.where(X.sum(1) > 0, "u", "v").astype(object)
    kinds[::7], sizes[20:] = None, None
    columns = [ClassLabels.encode(column, N, name) for column, name in ((kinds, "k"), (sizes, "s"))]
    return X, Y, tuple(columns)


def bayesian(*, grid: bool = False, noises: int = 1) -> SparseGPLVMObjective:
    X, Y, _ = table()
    problem = FitProblem(InMemoryRows(Y), (), 2, torch.Generator().manual_seed(0), None)
    noise = torch.linspace(0.1, 0.3, noises).double()
    path = GridDataPath(X[:3].clone(), noise) if grid else DataPath(X[:M].clone(), noise)
    return GPLVMObjective(placed_rows(X, 0.2, [path], problem), path, problem)


def q_exponential() -> SparseGPLVMObjective:
    X, Y, _ = table()
    problem = FitProblem(InMemoryRows(Y), (), 2, torch.Generator().manual_seed(0), None)
    path = DataPath(X[:M].clone(), torch.full((D,), 0.2).double())
    rows = placed_rows(X, 0.2, [path], problem)
    return QEPLVMObjective(rows, path, problem, QExponent("learn"))


def ldgd(samples: int = 2) -> SparseGPLVMObjective:
    X, Y, columns = table()
    problem = FitProblem(InMemoryRows(Y), columns, 2, torch.Generator().manual_seed(0), None)
    path = DataPath(X[:M].clone(), torch.full((D,), 0.2).double())
    paths = [LabelPath(X[5:12].clone(), len(column.classes)) for column in columns]
    weights = [np.linspace(1, 2, N), np.ones(N)]
    return LDGDObjective(
        rows=labelled_rows(X, 0.2, path, paths, problem, weights),
        path=path,
        label_paths=paths,
        problem=problem,
        weights=weights,
        samples=samples,
    )


OBJECTIVES: dict[str, Callable[[], SparseGPLVMObjective]] = {
    "bayesian": bayesian,
    "noises": lambda: bayesian(noises=D),
    "grid": lambda: bayesian(grid=True),
    "q-exponential": q_exponential,
    "ldgd": ldgd,
}


def values(terms: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(term.detach()) for name, term in terms.items()}


def terms_and_slopes(fit: SparseGPLVMObjective) -> tuple[dict[str, float], np.ndarray]:
    """The terms, and the gradient by all parameters in the order of one machine."""
    terms = fit.terms()
    vectors = fit.parameter_vectors()
    gradient = vectors.gradient(torch.stack(list(terms.values())).sum())
    assert gradient is not None
    return values(terms), vectors.rows([gradient])[0]


@pytest.mark.parametrize("ends", SPLITS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_the_bound_and_its_gradient_are_those_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, kind: str, ends: list[int]
) -> None:
    terms, slopes = terms_and_slopes(OBJECTIVES[kind]())
    use_shards_here(monkeypatch, ends)
    found, gradient = terms_and_slopes(OBJECTIVES[kind]())
    assert list(found) == list(terms)
    for name, value in terms.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=0)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-9 * np.abs(slopes).max())


def test_a_random_subset_of_the_labelled_rows_is_the_same_in_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(label_draws, "LABELLED_ROWS_PER_STEP", 12)
    one = ldgd()
    expected = [values(one.terms(3)) for _ in range(2)]
    use_shards_here(monkeypatch, SPLITS[1])
    other = ldgd()
    for wanted in expected:  # the second evaluation goes on with the same generator
        found = values(other.terms(3))
        for name, value in wanted.items():
            assert found[name] == pytest.approx(value, rel=1e-9, abs=0)
    assert expected[0]["label fit: k"] != expected[1]["label fit: k"]


@pytest.mark.parametrize("kind", ["bayesian", "grid", "q-exponential"])
def test_rows_are_relocated_to_the_same_positions(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def moved() -> tuple[SparseGPLVMObjective, np.ndarray]:
        fit = OBJECTIVES[kind]()
        before = fit.rows.posterior().mean.copy()
        fit.relocate_rows()
        return fit, before

    one, before = moved()
    use_shards_here(monkeypatch, SPLITS[1])
    other, _ = moved()
    expected = one.rows.posterior()
    assert not np.array_equal(before, expected.mean)
    np.testing.assert_array_equal(other.rows.posterior().mean, expected.mean)
    np.testing.assert_allclose(other.rows.posterior().variance, expected.variance, rtol=1e-14)
    some = np.array([0, 7, 39])
    np.testing.assert_array_equal(other.latent_mean(some).numpy(), expected.mean[some])


def test_moves_that_lower_the_bound_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    use_shards_here(monkeypatch, SPLITS[1])
    fit = bayesian()
    before = fit.rows.posterior().mean
    falling = iter([0.0, -1.0])
    monkeypatch.setattr(fit, "bound", lambda: next(falling))
    fit.relocate_rows()
    np.testing.assert_array_equal(fit.rows.posterior().mean, before)


MODELS: dict[str, Callable[..., Any]] = {
    "free": lambda **s: BayesianGPLVM(n_inducing=M, inducing_layout="free", **s),
    "grid": lambda **s: BayesianGPLVM(n_inducing=M, inducing_layout="grid", noise="column", **s),
    "qep": lambda **s: QEPLVM(n_inducing=M, q=1.4, **s),
    "ldgd": lambda **s: LDGD(n_inducing=M, n_samples=2, **s),
}


def fitted(kind: str, steps: int, **how: Any) -> Any:
    _, Y, columns = table()
    classes = [*columns[0].classes, None]
    labels = np.array([classes[code] for code in columns[0].codes], dtype=object)
    model = MODELS[kind](max_iter=steps, n_components=2, start="pca", device="cpu")
    return model._fit_from(Y.numpy(), labels, **how)


def bounds(model: Any) -> np.ndarray:
    return np.array([step.objective for step in model.history_])


@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_in_shards_follows_that_of_one_machine(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    one = fitted(kind, 60)
    use_shards_here(monkeypatch, SPLITS[1])
    other = fitted(kind, 60)
    assert [list(step.terms) for step in other.history_] == [list(s.terms) for s in one.history_]
    # 24 steps of Adam, 12 of its cooling, then those of the quasi-Newton method (not of LDGD).
    np.testing.assert_allclose(bounds(other)[:40], bounds(one)[:40], rtol=1e-9)
    np.testing.assert_allclose(bounds(other), bounds(one), rtol=1e-6)
    assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-6)
    np.testing.assert_allclose(other.embedding_.mean, one.embedding_.mean, atol=1e-3)
    np.testing.assert_allclose(other.noise_variance_, one.noise_variance_, rtol=1e-3)


@pytest.mark.parametrize(("kind", "stop"), [("free", 15), ("free", 50), ("ldgd", 30)])
@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 2), (2, 1)])
def test_a_fit_goes_on_with_another_number_of_shards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, stop: int, first: int, second: int
) -> None:
    splits = [[N], [17, N], [5, 9, N]]
    whole, path = fitted(kind, 60), tmp_path / "checkpoint.safetensors"

    def stops(step: FitStep) -> bool:
        return step.iteration == stop

    def place(choice: int) -> None:
        monkeypatch.undo()
        if choice:
            use_shards_here(monkeypatch, splits[choice])

    place(first)
    part = fitted(kind, 60, callback=stops, checkpoint=Checkpoint(path))
    assert len(part.history_) == stop
    place(second)
    steps: list[int] = []
    checkpoint = Checkpoint(path)
    again = fitted(
        kind, 60, callback=lambda step: steps.append(step.iteration), checkpoint=checkpoint
    )
    assert not checkpoint.notes
    assert steps[0] == stop + 1
    np.testing.assert_allclose(bounds(again)[:40], bounds(whole)[:40], rtol=1e-9)
    np.testing.assert_allclose(bounds(again), bounds(whole), rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "holed", "what"),
    [
        (lambda: BayesianGPLVM(n_inducing=M), True, "missing cells"),
        (lambda: BayesianGPLVM(n_inducing=M, dtype="float32"), False, "dtype='float64'"),
        (lambda: BayesianGPLVM(n_inducing=M, kernel="linear"), False, "kernel='rbf'"),
        (
            lambda: BayesianGPLVM(n_inducing=M, column_likelihood="student_t*5"),
            False,
            "column_likelihood='gaussian'",
        ),
    ],
)
def test_what_shards_cannot_do_is_refused_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], holed: bool, what: str
) -> None:
    use_shards_here(monkeypatch, SPLITS[0])
    Y = table()[1].numpy().copy()
    if holed:
        Y[3, 2] = np.nan
    with pytest.raises(ConfigError, match=what):
        make().set_params(n_components=2, max_iter=5, start="pca", device="cpu").fit(Y)
