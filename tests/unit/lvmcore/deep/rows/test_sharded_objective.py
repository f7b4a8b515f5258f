"""An SVGP whose rows are in shards is that of one process, up to the order of sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore import SVGPClassifier, SVGPRegressor
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective
from lvmcore.deep.rows.sharded_objective import ShardedSVGPObjective
from lvmcore.distributed.choice import chosen_shards
from lvmcore.errors import ConfigError
from lvmcore.results import FitStep
from lvmcore.training import adam
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.gp.rows.shards_here import use_shards_here

N, H, M, B = 71, 3, 8, 16
SPLITS = [[30, N], [1, 48, N], [3, 4, 9, 11, 40, 69, N]]


def table() -> tuple[Tensor, Tensor]:
    """Inputs [N, H], and a number of each row [N]."""
    draw = torch.Generator().manual_seed(3)
    X = torch.randn((N, H), generator=draw, dtype=torch.float64)
    noise = torch.randn(N, generator=draw, dtype=torch.float64)
    return X, (2 * X[:, 0]).sin() + X[:, 1] + 0.1 * noise


def classes(n: int) -> np.ndarray:
    return np.digitize(table()[1].numpy(), np.linspace(-0.8, 0.8, n + 1)[1:-1])


def objective(kind: str, batch: int, *, sharded: bool) -> DeepGPObjective:
    X, t = table()
    if kind == "number":
        Y, likelihood = t[:, None], GaussianNoise(0.1, X)
    elif kind == "two classes":
        Y, likelihood = torch.as_tensor(2.0 * classes(2) - 1)[:, None], SoftmaxClasses("probit", X)
    else:
        Y = 2 * torch.nn.functional.one_hot(torch.as_tensor(classes(3)), 3).double() - 1
        likelihood = SoftmaxClasses("softmax", X)
    settings = DeepGPSettings(n_hidden=0, batch_size=batch)
    model = induced_deep_gp(settings, X, Y, X[:M].clone(), likelihood)
    how: dict[str, Any] = {"batch_size": batch, "generator": torch.Generator().manual_seed(0)}
    if sharded:
        return ShardedSVGPObjective(model, X, Y, **how)
    return DeepGPObjective(model, X, Y, n_samples=1, **how)


def stepped(fit: DeepGPObjective) -> list[dict[str, Any]]:
    """The terms, the gradient and the sites of some steps of Adam's place."""
    found = []
    for _ in range(4):
        for parameter in fit.parameters():
            parameter.grad = None
        terms = fit.batch_terms()
        (-torch.stack(list(terms.values())).sum()).backward()
        slopes = [p.grad for p in fit.parameters() if p.grad is not None]
        with torch.no_grad():
            for parameter in fit.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=1e-5)
        found.append(
            {
                "terms": {name: float(term.detach()) for name, term in terms.items()},
                "gradient": torch.cat([slope.reshape(-1) for slope in slopes]).numpy().copy(),
                "state": [tensor.double().numpy().copy() for tensor in fit.state()],
            }
        )
    return found


@pytest.mark.parametrize("ends", SPLITS)
@pytest.mark.parametrize(
    ("kind", "batch"),
    [("number", B), ("two classes", B), ("three classes", B), ("three classes", N)],
)
def test_terms_gradients_and_sites_are_those_of_one_process(
    monkeypatch: pytest.MonkeyPatch, kind: str, batch: int, ends: list[int]
) -> None:
    expected = stepped(objective(kind, batch, sharded=False))
    use_shards_here(monkeypatch, ends)
    found = stepped(objective(kind, batch, sharded=True))
    for one, other in zip(found, expected, strict=True):
        assert list(one["terms"]) == list(other["terms"])
        for name, value in other["terms"].items():
            assert one["terms"][name] == pytest.approx(value, rel=1e-9, abs=1e-9)
        wanted = other["gradient"]
        np.testing.assert_allclose(
            one["gradient"], wanted, rtol=1e-8, atol=1e-9 * np.abs(wanted).max()
        )
        for here, there in zip(one["state"], other["state"], strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9 * np.abs(there).max())


# ---- fits --------------------------------------------------------------------------------------

MODELS: dict[str, Callable[..., Any]] = {"number": SVGPRegressor, "class": SVGPClassifier}


def fitted(kind: str, **how: Any) -> Any:
    X, t = table()
    target = t.numpy() if kind == "number" else np.array(["a", "b", "c"])[classes(3)]
    settings = {"n_inducing": M, "batch_size": B, "kernel": "rbf", "device": "cpu"}
    model = MODELS[kind](max_iter=50, random_state=1, **settings)
    return model._fit_from(X.numpy(), target, **how)


@pytest.fixture
def insensitive_adam() -> Iterator[None]:
    """A larger ε, below which gradients have no full step.

    At the prior the gradient by the inducing inputs is 0 but for rounding, some 1e-8. With the
    usual ε Adam makes a step of it that depends on the order of sums, and the first bounds, of a
    small noise, differ by per cents.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adam, "EPSILON", 1e-2)
        yield


def bounds(model: Any) -> np.ndarray:
    return np.array([step.objective for step in model.history_])


def predictions(model: Any) -> np.ndarray:
    X = table()[0].numpy() + 0.1
    found = model.predict_proba(X) if isinstance(model, SVGPClassifier) else model.predict(X)
    return np.asarray(found)


@pytest.mark.usefixtures("insensitive_adam")
@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_over_processes_ends_as_that_of_one(kind: str) -> None:
    one = fitted(kind)
    with chosen_shards(2):
        other = fitted(kind)
    assert other.computation_.shards == 2
    np.testing.assert_allclose(bounds(other), bounds(one), rtol=1e-4, atol=1e-4 * N)
    assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-4, abs=1e-4 * N)
    np.testing.assert_allclose(predictions(other), predictions(one), atol=1e-4)


@pytest.mark.usefixtures("insensitive_adam")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 2), (2, 1)])
def test_a_fit_goes_on_with_another_number_of_shards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, first: int, second: int
) -> None:
    whole, path, stop = fitted(kind), tmp_path / "checkpoint.safetensors", 23

    def stops(step: FitStep) -> bool:
        return step.iteration == stop

    def place(choice: int) -> None:
        monkeypatch.undo()
        if choice:
            use_shards_here(monkeypatch, SPLITS[choice - 1])

    place(first)
    fitted(kind, callback=stops, checkpoint=Checkpoint(path))
    place(second)
    steps: list[int] = []
    checkpoint = Checkpoint(path)
    again = fitted(kind, callback=lambda step: steps.append(step.iteration), checkpoint=checkpoint)
    assert not checkpoint.notes
    assert steps[0] == stop + 1
    np.testing.assert_allclose(bounds(again), bounds(whole), rtol=1e-4, atol=1e-4 * N)


@pytest.mark.parametrize("kernel", ["rbf", "auto", "linear"])
def test_steps_with_all_rows_are_refused_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    use_shards_here(monkeypatch, SPLITS[0])
    X, t = table()
    model = SVGPRegressor(n_inducing=M, kernel=kernel, max_iter=5)
    with pytest.raises(ConfigError, match="batch_size below the number of rows, 71"):
        model.fit(X.numpy(), t.numpy())
