"""The setting ``kernel`` of the maps by random features."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lvmcore import load
from lvmcore.base.fit_problem import FitProblem
from lvmcore.base.validation import fit_fingerprint
from lvmcore.errors import ConfigError
from lvmcore.gp.paths import LatentRows
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.fourier_sums import feature_sums
from lvmcore.random_features.gaussian_term import GaussianTerm
from lvmcore.random_features.kernel_spectrum import KernelSpectrum
from lvmcore.random_features.objective import RandomFeatureObjective
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint

KERNEL = "matern32(z1) + rbf(z2) * periodic(z1)"


def table(n_rows: int = 40) -> FloatArray:
    """Five smooth columns of two latent dimensions, with noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 2))
    columns = [np.sin(x[:, 0]), x[:, 0], x[:, 0] * x[:, 1], np.cos(x[:, 1]), x[:, 1]]
    return np.stack(columns, 1) + 0.1 * rng.normal(size=(n_rows, 5))


Y = table()
HOLED = Y.copy()
HOLED[::5, 1] = np.nan
COUNTS = np.random.default_rng(1).poisson(np.exp(1 + Y)).astype(float)


def model(**settings: Any) -> SRFLVM:
    usual: dict[str, Any] = {"n_components": 2, "n_features": 24, "max_iter": 10}
    return SRFLVM(**{**usual, "random_state": 0, "kernel": KERNEL, **settings})


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        ("numbers", {}),
        ("numbers", {"dtype": "float32", "n_restarts": 2}),
        ("gaps", {"kernel": "rational_quadratic"}),
        ("counts", {"likelihood": "poisson", "kernel": "spectral_mixture(z1, n=2) + cosine(z2)"}),
        ("long", {"batch_size": 20, "n_features": 8, "kernel": "matern12 + rbf(z2)"}),
    ],
)
def test_a_fit_places_decodes_fills_and_comes_back(
    rows: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    data = {"numbers": Y, "gaps": HOLED, "counts": COUNTS, "long": table(90)}[rows]
    fitted = model(**settings).fit(data)
    fitted.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    assert again.kernel == fitted.kernel
    here, there = fitted.posterior(data[:3]), again.posterior(data[:3])
    points = here.mean
    pairs = [(here, there), (fitted.decode(points), again.decode(points))]
    if rows != "counts":
        pairs.append((fitted.impute(HOLED[:2]), again.impute(HOLED[:2])))
    for one, other in pairs:
        for name in ("mean", "variance"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(fitted.score_samples(data[:3]), again.score_samples(data[:3]))
    np.testing.assert_array_equal(fitted.latent_kernel([1.0]), again.latent_kernel([1.0]))
    assert (np.linalg.eigvalsh(fitted.latent_metric(points)) > 0).all()
    X = torch.as_tensor(points).double()
    assert fitted.kernel_ is not None
    torch.testing.assert_close(fitted.kernel_.forward(X, X), again.kernel_.forward(X, X))


def test_the_features_of_a_fit_are_those_of_its_kernel() -> None:
    fitted = model(kernel="matern32(z1) + rbf(z2)", n_features=300, max_iter=5).fit(Y)
    kernel, X = fitted.kernel_, torch.as_tensor(fitted.embedding_.mean)
    assert kernel is not None
    Phi = fitted._decoder.features(X)
    K, variance = kernel.forward(X, X), float(kernel.diagonal(X)[0])
    assert variance == pytest.approx(float(fitted._decoder.features.variance))
    assert float((Phi @ Phi.T - K).abs().max()) < 0.02 * variance
    # Hyperparameters have been fitted
    lengthscales = [one.value for one in kernel.summands[0].hyperparameters()]
    assert abs(lengthscales[0] - 1) > 0.01
    along = torch.tensor([[0.0, 0.0], [0.7, 0.0]], dtype=torch.float64)
    correlation = float(kernel.forward(along, along)[0, 1]) / variance
    assert fitted.latent_kernel([0.7])[0, 0] == pytest.approx(correlation, abs=0.02)
    np.testing.assert_allclose(fitted.relevance_["data"], kernel.relevance)


def test_gradients_of_the_bound_are_differences() -> None:
    data = torch.as_tensor((Y - Y.mean(0)) / Y.std(0))
    problem = FitProblem(InMemoryRows(data), (), 2, torch.Generator().manual_seed(0), None)
    rows = LatentRows(data[:, :2].clone(), 1e-12)  # draws of the positions do not vary
    text = "matern32(z1) + rational_quadratic(z2) * periodic(z1)"
    spectrum = KernelSpectrum(read_kernel(text), 10, 2, data, problem.generator)
    columns = GaussianTerm(problem, n_features=20, shared=True)
    objective = RandomFeatureObjective(rows, spectrum, columns, problem.generator)

    def bound() -> torch.Tensor:
        problem.generator.manual_seed(1)
        return torch.stack(list(objective.batch_terms().values())).sum()

    parameters = list(spectrum.parameters())
    gradients = torch.autograd.grad(bound(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        for place in range(parameter.numel()):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.view(-1)[place] += sign * 1e-4
                    ends.append(float(bound().detach()))
                    parameter.view(-1)[place] -= sign * 1e-4
            difference = (ends[0] - ends[1]) / 2e-4
            assert float(gradient.view(-1)[place]) == pytest.approx(difference, rel=1e-3, abs=1e-3)


def test_sums_of_features_with_a_scale_each() -> None:
    rng = np.random.default_rng(0)
    points, X = (torch.as_tensor(rng.standard_normal((n, 2))).requires_grad_() for n in (5, 23))
    scale = torch.as_tensor(rng.uniform(0.5, 2, 5)).requires_grad_()
    columns = torch.as_tensor(rng.standard_normal((23, 3)))
    Phi = RandomFourierFeatures(points, scale)(X)
    G, P = feature_sums(RandomFourierFeatures(points, scale), X, columns)
    torch.testing.assert_close(G, Phi.T @ Phi)
    torch.testing.assert_close(P, Phi.T @ columns)
    assert torch.autograd.gradcheck(
        lambda *leaves: feature_sums(RandomFourierFeatures(*leaves[:2]), leaves[2], columns),
        (points, scale, X),
    )
    features = RandomFourierFeatures(points.detach(), scale.detach())
    jacobian = torch.autograd.functional.jacobian(features, X.detach()[0])
    torch.testing.assert_close(features.slopes(X.detach()[:1])[0].T, jacobian)
    own = features(X.detach()[:1])
    torch.testing.assert_close(own.square().sum(), features.variance)


def test_a_fit_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def stop(step: FitStep) -> bool:
        return step.iteration == 7

    whole = model().fit(Y)
    path = tmp_path / "checkpoint.safetensors"
    model()._fit_from(Y, None, callback=stop, checkpoint=Checkpoint(path))
    again = model()._fit_from(Y, None, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(again.embedding_.mean, whole.embedding_.mean)
    assert again.elbo_ == whole.elbo_


def test_checkpoints_of_learned_kernels_are_those_of_earlier_versions() -> None:
    prints = {text: fit_fingerprint(model(kernel=text), Y) for text in ("learned", "rbf", KERNEL)}
    assert len(set(prints.values())) == 3
    settings = model(kernel="learned").get_params(deep=False)
    del settings["kernel"]

    class Earlier:
        key, capabilities, task = SRFLVM.key, SRFLVM.capabilities, "map"

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return settings

    assert fit_fingerprint(Earlier(), Y) == prints["learned"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "rbf +"}, "ends too early"),
        ({"kernel": "rbf + linear"}, r"has linear, whose spectrum.*Possible are rbf, matern52"),
        ({"kernel": "polynomial(z1)"}, r"has polynomial, whose.*and learned\."),
        ({"kernel": "rbf(income)"}, "names 'income', but it acts on the dimensions of the map"),
        ({"kernel": "rbf(z1) + rbf(z3)"}, "names z3, but the map has 2 dimensions"),
        ({"kernel": "cosine"}, "acts on one dimension, and the map has 2"),
        ({"kernel": "rbf + matern12 + matern32", "n_features": 4}, "set at least 6"),
    ],
)
def test_a_kernel_that_cannot_be_used_is_reported_before_the_fit(
    settings: dict[str, Any], message: str
) -> None:
    steps: list[FitStep] = []
    with pytest.raises(ConfigError, match=message):
        model(**settings).fit(Y, callback=lambda step: bool(steps.append(step)))
    assert not steps


def test_only_learned_kernels_have_ensembles() -> None:
    with pytest.raises(ConfigError, match=r"kernel='rbf' cannot be used.*kernel='learned'"):
        model(kernel="rbf").fit(Y).ensemble(Y, 2)


def test_a_learned_kernel_has_no_hyperparameters() -> None:
    fitted = model(kernel="learned").fit(Y)
    assert fitted.kernel_ is None
    assert fitted.spectral_.amplitudes is None
    assert not any(name.startswith("kernel.") for name in fitted._get_state()[0])


@pytest.mark.slow
def test_a_cosine_kernel_finds_the_phase_of_waves() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 120)
    phases = rng.uniform(0, 2 * np.pi, 12)
    data = np.sin(3 * x[:, None] + phases) + 0.1 * rng.standard_normal((120, 12))
    start = x[:, None] / x.std()
    wave, smooth = (
        SRFLVM(kernel=text, start=start, n_features=60, max_iter=300, random_state=0).fit(data)
        for text in ("cosine(z1)", "rbf")
    )
    assert wave.elbo_ > smooth.elbo_ + 20
    assert wave.kernel_ is not None
    (period,) = wave.kernel_.summands[0].hyperparameters()
    angle = 2 * np.pi * wave.embedding_.mean[:, 0] / period.value
    # Up to its sign and origin the angle is the phase 3x
    same = [np.abs(np.exp(1j * (sign * angle - 3 * x)).mean()) for sign in (1, -1)]
    assert max(same) > 0.98
