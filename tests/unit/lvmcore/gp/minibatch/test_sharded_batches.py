"""A mini-batch fit whose rows are in shards is the fit of one process, up to the order of sums."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore import FastLDGD, StochasticGPLVM
from lvmcore.base.fit_problem import FitProblem
from lvmcore.distributed.choice import chosen_shards
from lvmcore.errors import ConfigError, DataError
from lvmcore.gp.minibatch import objective as minibatch_objective
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.minibatch.objective import MinibatchObjective
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.memory_mapped_rows import MemoryMappedRows
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.gp.rows.shards_here import use_shards_here

N, D, M, B = 71, 5, 9, 16
NAMES = list("abcde")
SPLITS = [[30, N], [1, 48, N], [3, 4, 9, 11, 40, 69, N]]


def table(holes: float = 0.0) -> tuple[Tensor, Tensor | None, tuple[ClassLabels, ...]]:
    """Rows [N, D] with a gross cell, their observed cells, and two label columns with gaps."""
    draw = torch.Generator().manual_seed(4)
    X = torch.randn((N, 2), generator=draw, dtype=torch.float64)
    W = torch.randn((2, D), generator=draw, dtype=torch.float64)
    Y = (X @ W).sin() + 0.2 * torch.randn((N, D), generator=draw, dtype=torch.float64)
    Y[5, 2] = 11.0
    kinds = np.where(X[:, 0] > 0, "a", np.where(X[:, 1] > 0, "b", "c")).astype(object)
    sizes = np.where(X.sum(1) > 0, "u", "v").astype(object)
    kinds[::7], sizes[20:] = None, None
    columns = [ClassLabels.encode(column, N, name) for column, name in ((kinds, "k"), (sizes, "s"))]
    observed = None if not holes else torch.rand((N, D), generator=draw) > holes
    return Y if observed is None else Y * observed, observed, tuple(columns)


def objective(
    *,
    holes: float = 0.0,
    labelled: bool = False,
    local: bool = False,
    batch: int = B,
    kernel: str | None = None,
) -> MinibatchObjective:
    Y, observed, columns = table(holes)
    generator = torch.Generator().manual_seed(0)
    rows = InMemoryRows(Y, observed)
    problem = FitProblem(rows, columns if labelled else (), 2, generator, None)
    settings = FastLDGD(batch_size=batch, n_hidden=8)
    labels = LabelSettings("probit", 2.0, "balanced") if labelled else None
    expression = None if kernel is None else read_kernel(kernel)
    noise = torch.full((D,), 0.1).double()
    return MinibatchObjective(settings, problem, noise, M, labels, expression, local=local)


OBJECTIVES: dict[str, dict[str, Any]] = {
    "encoder": {},
    "samples": {},
    "labels": {"labelled": True},
    "holes": {"holes": 0.2, "labelled": True},
    "holes, samples": {"holes": 0.2},
    "q(x) of each row": {"local": True},
    "q(x) of each row, holes": {"local": True, "holes": 0.2},
    "whole": {"batch": N},
    "whole, holes": {"batch": N, "holes": 0.2, "local": True},
    "kernel": {"kernel": "matern32"},
}


def stepped(fit: MinibatchObjective, steps: int = 3) -> list[dict[str, Any]]:
    """The terms, the gradient, and the state after each of some steps without an optimiser."""
    found = []
    for _ in range(steps):
        for parameter in fit.parameters():
            parameter.grad = None
        terms = fit.batch_terms()
        (-torch.stack(list(terms.values())).sum()).backward()
        slopes = [p.grad for p in fit.parameters() if p.grad is not None]
        fit.step_rows(0.02)
        found.append(
            {
                "terms": {name: float(term.detach()) for name, term in terms.items()},
                "gradient": torch.cat([slope.reshape(-1) for slope in slopes]).numpy().copy(),
                "state": [tensor.numpy().copy() for tensor in fit.state()],
                "noise": fit.path.log_noise.detach().numpy().copy(),
            }
        )
    return found


@pytest.mark.parametrize("ends", SPLITS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_terms_gradients_and_natural_gradients_are_those_of_one_process(
    monkeypatch: pytest.MonkeyPatch, kind: str, ends: list[int]
) -> None:
    if "samples" in kind:
        monkeypatch.setattr(minibatch_objective, "MOST_PSI_INDUCING", 1)
    expected = stepped(objective(**OBJECTIVES[kind]))
    use_shards_here(monkeypatch, ends)
    found = stepped(objective(**OBJECTIVES[kind]))
    for one, other in zip(found, expected, strict=True):
        assert list(one["terms"]) == list(other["terms"])
        size = max(map(abs, other["terms"].values()))
        for name, value in other["terms"].items():
            assert one["terms"][name] == pytest.approx(value, rel=1e-9, abs=1e-10 * size)
        wanted = other["gradient"]
        np.testing.assert_allclose(
            one["gradient"], wanted, rtol=1e-8, atol=1e-9 * np.abs(wanted).max()
        )
        for here, there in zip(one["state"], other["state"], strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-8 * np.abs(there).max())
        np.testing.assert_allclose(one["noise"], other["noise"], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["labels", "holes", "q(x) of each row"])
def test_the_bound_and_the_sums_of_all_rows_are_those_of_one_process(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    one = objective(**OBJECTIVES[kind])
    use_shards_here(monkeypatch, SPLITS[1])
    other = objective(**OBJECTIVES[kind])
    assert other.bound(2) == pytest.approx(one.bound(2), rel=1e-10)
    there, here = one.whole_table(), other.whole_table()
    torch.testing.assert_close((here.mean, here.variance), (there.mean, there.variance))
    for part in ("psi0", "psi1Y", "psi2"):
        torch.testing.assert_close(getattr(here.sums, part), getattr(there.sums, part))


def test_rows_with_a_posterior_of_their_own_move_over_the_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def moved() -> tuple[Tensor, Tensor]:
        fit = objective(local=True)
        stepped(fit)
        before = fit.all_rows()[0].clone()
        fit.relocate_rows()
        return before, fit.all_rows()[0]

    before, expected = moved()
    assert not torch.equal(before, expected)
    use_shards_here(monkeypatch, SPLITS[1])
    torch.testing.assert_close(moved()[1], expected, rtol=1e-8, atol=1e-9)


# ---- fits --------------------------------------------------------------------------------------

MODELS: dict[str, Callable[..., Any]] = {
    "fast_ldgd": lambda **s: FastLDGD(n_hidden=8, **s),
    "encoder": lambda **s: StochasticGPLVM(n_hidden=8, **s),
    "free": lambda **s: StochasticGPLVM(latent_posterior="free", **s),
}


def fitted(kind: str, steps: int, holes: float = 0.0, dtype: str = "float64", **how: Any) -> Any:
    Y, observed, columns = table(holes)
    X = Y.numpy() if observed is None else torch.where(observed, Y, torch.nan).numpy()
    classes = [*columns[0].classes, None]
    labels = np.array([classes[code] for code in columns[0].codes], dtype=object)
    settings = {"n_inducing": M, "batch_size": B, "n_components": 2, "device": "cpu"}
    model = MODELS[kind](max_iter=steps, random_state=1, dtype=dtype, **settings)
    return model._fit_from(X, labels if kind == "fast_ldgd" else None, **how)


def bounds(model: Any) -> np.ndarray:
    return np.array([step.objective for step in model.history_])


@pytest.mark.parametrize("holes", [0.0, 0.15])
@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_in_shards_ends_as_that_of_one_process(
    monkeypatch: pytest.MonkeyPatch, kind: str, holes: float
) -> None:
    one = fitted(kind, 60, holes)
    use_shards_here(monkeypatch, SPLITS[1])
    other = fitted(kind, 60, holes)
    assert [list(step.terms) for step in other.history_] == [list(s.terms) for s in one.history_]
    np.testing.assert_allclose(bounds(other), bounds(one), rtol=1e-6, atol=1e-6 * N)
    assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-6)
    np.testing.assert_allclose(other.embedding_.mean, one.embedding_.mean, atol=1e-5)
    np.testing.assert_allclose(other.noise_variance_, one.noise_variance_, rtol=1e-5)
    if kind == "fast_ldgd":
        new = table()[0].numpy()[::5] + 0.1
        np.testing.assert_allclose(other.predict_proba(new), one.predict_proba(new), atol=1e-5)
    if holes:
        np.testing.assert_allclose(other.interval_scale_, one.interval_scale_, rtol=1e-4)


def test_a_fit_in_single_precision_is_that_of_one_process_within_its_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fitted("fast_ldgd", 40, dtype="float32")
    use_shards_here(monkeypatch, SPLITS[0])
    other = fitted("fast_ldgd", 40, dtype="float32")
    np.testing.assert_allclose(bounds(other), bounds(one), rtol=1e-3, atol=1e-3 * N)


@pytest.mark.parametrize("kind", ["fast_ldgd", "free"])
@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 2), (2, 1)])
def test_a_fit_goes_on_with_another_number_of_shards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, first: int, second: int
) -> None:
    whole, path, stop = fitted(kind, 50), tmp_path / "checkpoint.safetensors", 23

    def stops(step: FitStep) -> bool:
        return step.iteration == stop

    def place(choice: int) -> None:
        monkeypatch.undo()
        if choice:
            use_shards_here(monkeypatch, SPLITS[choice - 1])

    place(first)
    fitted(kind, 50, callback=stops, checkpoint=Checkpoint(path))
    place(second)
    steps: list[int] = []
    checkpoint = Checkpoint(path)
    again = fitted(
        kind, 50, callback=lambda step: steps.append(step.iteration), checkpoint=checkpoint
    )
    assert not checkpoint.notes
    assert steps[0] == stop + 1
    np.testing.assert_allclose(bounds(again), bounds(whole), rtol=1e-6, atol=1e-6 * N)


@pytest.mark.parametrize("kind", MODELS)
def test_columns_with_likelihoods_are_refused_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    use_shards_here(monkeypatch, SPLITS[0])
    Y, _, columns = table()
    labels = columns[1].codes if kind == "fast_ldgd" else None
    model = MODELS[kind](column_likelihood="student_t*5", n_components=2, max_iter=5)
    with pytest.raises(ConfigError, match="column_likelihood='gaussian'"):
        model.fit(Y.numpy(), labels)


# ---- rows on disk ------------------------------------------------------------------------------


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap[Any, Any]:
    np.save(tmp_path / "rows.npy", table()[0].numpy())
    found: np.memmap[Any, Any] = np.load(tmp_path / "rows.npy", mmap_mode="r")
    return found


@pytest.mark.parametrize("shards", [2, 3])
def test_processes_read_their_rows_of_a_file(mapped: np.memmap[Any, Any], shards: int) -> None:
    settings = {"n_inducing": M, "batch_size": B, "n_components": 2, "device": "cpu"}

    def fit() -> Any:
        return StochasticGPLVM(max_iter=12, n_hidden=8, random_state=1, **settings).fit(mapped)

    one = fit()
    with chosen_shards(shards):
        other = fit()
    assert other.computation_.shards == shards
    np.testing.assert_allclose(bounds(other), bounds(one), rtol=1e-7, atol=1e-7 * N)
    np.testing.assert_allclose(other.embedding_.mean, one.embedding_.mean, atol=1e-6)


def test_a_part_of_a_file_is_pickled_without_its_rows(mapped: np.memmap[Any, Any]) -> None:
    standardiser = Standardiser.fit(mapped, NAMES)
    rows = MemoryMappedRows(mapped, standardiser, torch.zeros(0, 1).double(), complete=True)
    sizes = [len(pickle.dumps(rows.part(part))) for part in (slice(0, 2), slice(0, N))]
    assert abs(sizes[0] - sizes[1]) < 50
    again = pickle.loads(pickle.dumps(rows.part(slice(13, 40)).part(slice(4, 20))))
    assert len(again) == 16
    torch.testing.assert_close(again.take(slice(None))[0], rows.take(slice(17, 33))[0])
    some = torch.tensor([5, 0, 11])
    torch.testing.assert_close(again.take(some)[0], rows.take(17 + some)[0])


def test_rows_in_no_file_are_pickled_as_they_are() -> None:
    Y = table()[0].numpy()
    rows = MemoryMappedRows(
        Y, Standardiser.fit(Y, NAMES), torch.zeros(0, 1).double(), complete=True
    )
    again = pickle.loads(pickle.dumps(rows.part(slice(3, 9))))
    torch.testing.assert_close(again.take(slice(None))[0], rows.take(slice(3, 9))[0])


def test_a_process_without_the_file_says_so(mapped: np.memmap[Any, Any], tmp_path: Path) -> None:
    standardiser = Standardiser.fit(mapped, NAMES)
    rows = MemoryMappedRows(mapped, standardiser, torch.zeros(0, 1).double(), complete=True)
    sent = pickle.dumps(rows.part(slice(0, 9)))
    (tmp_path / "rows.npy").unlink()
    with pytest.raises(DataError, match=r"rows.npy.*all nodes share"):
        pickle.loads(sent).take(slice(None))
