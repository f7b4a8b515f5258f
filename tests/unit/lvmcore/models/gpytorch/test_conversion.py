"""Models that were trained with gpytorch predict as gpytorch does, in memory and from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose

import lvmcore
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.export.gpytorch.exported_model import exported_model
from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from tests.unit.lvmcore.models.gpytorch.trained import (
    approximate,
    exact,
    gplvm,
    own_predictions,
    rows,
    table,
)

NEW = rows(20, 7)[0]


def kernel(text: str) -> Any:
    K = gpytorch_kernels()
    made = {
        "rbf": lambda: K.ScaleKernel(K.RBFKernel(ard_num_dims=2)),
        "sum": lambda: K.ScaleKernel(K.MaternKernel(nu=1.5)) + K.LinearKernel(active_dims=(1,)),
        "product": lambda: K.ScaleKernel(
            K.RQKernel(active_dims=(0,)) * (K.RBFKernel() + K.ConstantKernel())
        ),
    }
    return made[text]()


def gpytorch_zero_mean() -> Any:
    gpytorch_kernels()
    from gpytorch.means import ZeroMean

    return ZeroMean()


def saved(model: Any, folder: Path) -> Any:
    model.save(folder / "model.safetensors")
    return lvmcore.load(folder / "model.safetensors")


def check_regressor(found: Any, model: Any, likelihood: Any, folder: Path) -> None:
    mean, sd = own_predictions(model, likelihood, NEW)
    for one in (found, saved(found, folder)):
        predicted = one.predict(pd.DataFrame(NEW.numpy(), columns=["a", "b"]), return_std=True)
        assert_allclose(predicted[0], mean, rtol=0, atol=1e-6)
        assert_allclose(predicted[1], sd, rtol=0, atol=1e-6)


@pytest.mark.parametrize("text", ["rbf", "sum", "product"])
def test_an_exact_process(text: str, tmp_path: Path) -> None:
    model = exact(kernel(text))
    found = lvmcore.from_gpytorch(model, columns=["a", "b"])
    assert isinstance(found, lvmcore.GPRegressor)
    assert model.training  # as before
    check_regressor(found, model, model.likelihood, tmp_path)
    import gpytorch

    model.train()
    X, y = rows()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        expected = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(X), y)
    assert found.elbo_ == pytest.approx(len(y) * float(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "strategy", "q"),
    [
        ("rbf", "VariationalStrategy", "CholeskyVariationalDistribution"),
        ("sum", "VariationalStrategy", "MeanFieldVariationalDistribution"),
        ("product", "VariationalStrategy", "DeltaVariationalDistribution"),
        ("rbf", "UnwhitenedVariationalStrategy", "CholeskyVariationalDistribution"),
        ("rbf", "VariationalStrategy", "NaturalVariationalDistribution"),
    ],
)
def test_a_sparse_process(text: str, strategy: str, q: str, tmp_path: Path) -> None:
    steps = 0 if q.startswith("Natural") else 5  # which Adam cannot train
    model, likelihood = approximate(kernel(text), strategy=strategy, q=q, steps=steps)
    X, y = rows()
    found = lvmcore.from_gpytorch(model, likelihood, X=X, y=y, columns=["a", "b"])
    assert isinstance(found, lvmcore.SVGPRegressor)
    check_regressor(found, model, likelihood, tmp_path)


def test_other_units_of_the_data(tmp_path: Path) -> None:
    model, likelihood = approximate(kernel("rbf"))
    X, y = rows()
    found = lvmcore.from_gpytorch(
        model, likelihood, X=X, y=y, means=[10, -2], scales=[2, 0.1], target_mean=5, target_scale=3
    )
    mean, sd = own_predictions(model, likelihood, NEW)
    for one in (found, saved(found, tmp_path)):
        frame = pd.DataFrame([10, -2] + np.array([2, 0.1]) * NEW.numpy(), columns=["x1", "x2"])
        predicted = one.predict(frame, return_std=True)
        assert_allclose(predicted[0], 5 + 3 * mean, rtol=0, atol=1e-6)
        assert_allclose(predicted[1], 3 * sd, rtol=0, atol=1e-6)


def test_single_precision_agrees_to_its_own_digits() -> None:
    model = exact(kernel("rbf"), dtype=torch.float32)
    found: Any = lvmcore.from_gpytorch(model)
    mean, sd = own_predictions(model, model.likelihood, NEW.float())
    frame = pd.DataFrame(NEW.numpy(), columns=["x1", "x2"])
    predicted = found.predict(frame, return_std=True)
    assert_allclose(predicted[0], mean, atol=1e-3)
    assert_allclose(predicted[1], sd, atol=1e-3)
    assert not any("cannot be saved" in note for note in found.notes_)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shared": False},
        {"latent": "point", "noises": False},
        {"latent": "map"},
    ],
    ids=["shared", "inducing inputs of each column", "points", "MAP"],
)
def test_a_map(options: dict[str, Any], tmp_path: Path) -> None:
    model, likelihood = gplvm(**options)
    Y = pd.DataFrame(table().numpy() * 3 + 1, columns=list("abcd"))
    found: Any = lvmcore.from_gpytorch(
        model, likelihood, X=table(), columns=list("abcd"), means=[1.0] * 4, scales=[3.0] * 4
    )
    assert isinstance(found, lvmcore.BayesianGPLVM)
    latent = model.X
    if options.get("latent", "variational") == "variational":
        sd = torch.nn.functional.softplus(latent.q_log_sigma.detach())
        assert_allclose(found.embedding_.mean, latent.q_mu.detach())
        assert_allclose(found.embedding_.variance, sd.numpy() ** 2)
    else:
        assert_allclose(found.embedding_.mean, latent.X.detach())
        assert not found.embedding_.variance.any()
    mean, sd = own_predictions(model, likelihood, NEW)
    for one in (found, saved(found, tmp_path)):
        decoded = one.decode(NEW.numpy())
        assert_allclose(decoded.mean, 1 + 3 * mean.T, rtol=0, atol=1e-6)
        assert_allclose(np.sqrt(decoded.variance), 3 * sd.T, rtol=0, atol=1e-6)
        assert np.isfinite(one.posterior(Y[:3]).mean).all()
        assert np.isfinite(one.latent_metric(NEW.numpy()[:3])).all()
        step, h = np.eye(2), 1e-4  # the metric, by differences of the mean and its own variance
        point = NEW.numpy()[:1]
        slopes = [
            (one.decode(point + h * e).mean - one.decode(point - h * e).mean) / (2 * h * 3)
            for e in step
        ]
        lower = np.array([[float((a * b).sum()) for a in slopes] for b in slopes])
        surplus = one.latent_metric(point)[0] - lower  # Σ_d Var ∂f_d
        assert np.linalg.eigvalsh(surplus).min() > -1e-6


def test_a_map_can_go_back_to_gpytorch() -> None:
    model, likelihood = gplvm(shared=False)
    found = lvmcore.from_gpytorch(model, likelihood, X=table())
    exported = exported_model(found)
    names: dict[str, Any] = {}
    exec(exported.source, names)
    again = names["load"](exported.weights)
    with torch.no_grad():
        f = again(NEW)
    decoded: Any = found.decode(NEW.numpy())  # type: ignore[union-attr]
    centre = [column["mean"] for column in exported.facts["columns"]]
    assert_allclose(f.mean.T.numpy() + centre, decoded.mean, rtol=0, atol=1e-6)
    variance = f.variance - again.variational_strategy.jitter_val + again.likelihood.noise.detach()
    assert_allclose(variance.T, decoded.variance, rtol=0, atol=1e-6)


def test_a_sparse_process_can_go_back_to_gpytorch() -> None:
    model, likelihood = approximate(kernel("rbf"), gpytorch_zero_mean())
    X, y = rows()
    exported = exported_model(lvmcore.from_gpytorch(model, likelihood, X=X, y=y))
    names: dict[str, Any] = {}
    exec(exported.source, names)
    again = names["load"](exported.weights)
    with torch.no_grad():
        f = again(NEW)
    mean, sd = own_predictions(model, likelihood, NEW)
    assert_allclose(f.mean, mean, rtol=0, atol=1e-6)
    variance = f.variance - again.variational_strategy.jitter_val + again.likelihood.noise.detach()
    assert_allclose(variance.sqrt(), sd, rtol=0, atol=1e-6)


def test_what_cannot_be_stored_still_predicts(tmp_path: Path) -> None:
    import gpytorch

    class Noise(gpytorch.likelihoods.GaussianLikelihood):  # type: ignore[misc]
        """A likelihood of a user's own."""

    K, X, y = gpytorch_kernels(), *rows()
    arc = K.ArcKernel(K.MaternKernel(), ard_num_dims=2)
    for name, (model, likelihood) in {
        "ArcKernel": approximate(arc),
        "LinearMean": approximate(kernel("rbf"), gpytorch.means.LinearMean(2)),
        "Noise": approximate(kernel("rbf"), likelihood=Noise()),
    }.items():
        found: Any = lvmcore.from_gpytorch(model, likelihood, X=X, y=y)
        mean, sd = own_predictions(model, likelihood, NEW)
        frame = pd.DataFrame(NEW.numpy(), columns=["x1", "x2"])
        predicted = found.predict(frame, return_std=True)
        assert_allclose(predicted[0], mean, rtol=0, atol=1e-9)
        assert_allclose(predicted[1], sd, rtol=0, atol=1e-9)
        assert any(name in note for note in found.notes_)
        with pytest.raises(UnsupportedError, match=f"{name} of gpytorch cannot be stored"):
            found.save(tmp_path / "model.safetensors")
        assert not (tmp_path / "model.safetensors").exists()


def test_a_map_of_another_kernel_still_decodes(tmp_path: Path) -> None:
    K = gpytorch_kernels()
    model, likelihood = gplvm(kernel=K.ScaleKernel(K.MaternKernel()))
    found: Any = lvmcore.from_gpytorch(model, likelihood, X=table())
    mean, sd = own_predictions(model, likelihood, NEW)
    decoded = found.decode(NEW.numpy())
    assert_allclose(decoded.mean, mean.T, rtol=0, atol=1e-9)
    assert_allclose(np.sqrt(decoded.variance), sd.T, rtol=0, atol=1e-9)
    with pytest.raises(UnsupportedError, match="matern52, cannot be stored: expected an RBF"):
        found.save(tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedError, match="Only decode is possible"):
        found.posterior(pd.DataFrame(table().numpy()[:2], columns=["x1", "x2", "x3", "x4"]))


def test_a_forward_of_its_own_is_noticed(tmp_path: Path) -> None:
    model = exact(kernel("rbf"), steps=1)
    plain = type(model).forward
    type(model).forward = lambda self, X: plain(self, 2 * X)
    found: Any = lvmcore.from_gpytorch(model)
    mean = own_predictions(model, model.likelihood, NEW)[0]
    frame = pd.DataFrame(NEW.numpy(), columns=["x1", "x2"])
    assert_allclose(found.predict(frame), mean, rtol=0, atol=1e-9)
    with pytest.raises(UnsupportedError, match="its forward computes something else"):
        found.save(tmp_path / "model.safetensors")


def test_bad_input_is_told() -> None:
    model, likelihood = approximate(kernel("rbf"), steps=0)
    X, y = rows()
    with pytest.raises(ConfigError, match="Linear cannot be converted"):
        lvmcore.from_gpytorch(torch.nn.Linear(2, 1), likelihood, X=X, y=y)
    with pytest.raises(ConfigError, match="Give the likelihood"):
        lvmcore.from_gpytorch(model, X=X, y=y)
    with pytest.raises(ConfigError, match="needs its rows X and targets y"):
        lvmcore.from_gpytorch(model, likelihood, X=X)
    with pytest.raises(DataError, match="X has 40 rows"):
        lvmcore.from_gpytorch(model, likelihood, X=X, y=y[:3])
    with pytest.raises(ConfigError, match="1 different names: expected 2"):
        lvmcore.from_gpytorch(model, likelihood, X=X, y=y, columns=["a", "a"])
    with pytest.raises(ConfigError, match="scales positive"):
        lvmcore.from_gpytorch(model, likelihood, X=X, y=y, scales=[1, 0])
    with pytest.raises(DataError, match="does not hold the training rows"):
        lvmcore.from_gpytorch(exact(kernel("rbf"), steps=0), X=X + 1)
    import gpytorch

    robust = gpytorch.likelihoods.StudentTLikelihood()
    with pytest.raises(ConfigError, match="StudentTLikelihood cannot be converted"):
        lvmcore.from_gpytorch(model, robust, X=X, y=y)
    mapped, noise = gplvm(steps=0)
    with pytest.raises(DataError, match="30 latent rows, and X has 3 rows"):
        lvmcore.from_gpytorch(mapped, noise, X=table()[:3])
    with pytest.raises(DataError, match="a batch of the 3 columns"):
        lvmcore.from_gpytorch(mapped, noise, X=table()[:, :3])
