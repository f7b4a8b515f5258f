"""A network of classes: its objective by loops, its optimum by SciPy, its slopes by differences."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import nn

from lvmcore.neural.classifier import ClassifierNetwork, ClassifierObjective, class_codes
from lvmcore.neural.convolutional import ConvolutionalNetwork, PixelScaling
from lvmcore.neural.networks import Network
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.target_column import class_signs

N, H, U, C = 40, 4, 3, 3


def made(seed: int = 0, **settings: float) -> ClassifierObjective:
    draws = torch.Generator().manual_seed(seed)
    X = torch.randn(N, H, generator=draws, dtype=torch.float64)
    codes = torch.randint(C, (N,), generator=draws)
    network = ClassifierNetwork(Network(H, 6, U, X, draws), U, C, X)
    network.features.start(torch.eye(H, U), X.new_zeros(U))
    network.start(codes)
    given = {"scale": 2.0, "batch_size": 100} | settings
    return ClassifierObjective(network, X, codes, generator=draws, **given)


def disturb(module: nn.Module) -> None:
    draws = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draws).to(parameter))


def codes_of(fit: ClassifierObjective) -> NDArray[np.int64]:
    return fit.summands[0].codes.numpy()


def test_a_fit_begins_with_the_shares_of_the_classes() -> None:
    fit = made()
    terms = fit.terms()
    shares = np.bincount(codes_of(fit)) / N
    assert float(terms["data fit"]) == pytest.approx(N * (shares * np.log(shares)).sum())
    assert float(terms["prior of the network"]) == 0
    np.testing.assert_allclose(fit.network.probability(fit.X), np.tile(shares, (N, 1)))


def test_the_objective_is_that_of_a_loop() -> None:
    fit = made()
    before = [p.detach().clone() for p in fit.network.parameters()]
    disturb(fit.network)
    network = fit.network
    W, a = (p.detach().numpy() for p in (network.last.weight, network.last.bias))
    total = 0.0
    for x, code in zip(fit.X, codes_of(fit), strict=True):
        f = a + network.features(x[None])[0].detach().numpy() @ W / np.sqrt(U)
        total += f[code] - np.log(np.exp(f).sum())
    moved = sum(
        float((p.detach() - q).square().sum())
        for p, q in zip(network.parameters(), before, strict=True)
    )
    terms = fit.terms()
    assert float(terms["data fit"]) == pytest.approx(float(total))
    assert float(terms["prior of the network"]) == pytest.approx(-moved / 8)


def test_batches_estimate_the_sum_over_all_rows() -> None:
    fit = made(batch_size=8)
    disturb(fit.network)
    parts = [fit.batch_terms() for _ in range(N // 8)]  # one pass over the rows
    mean = np.mean([float(part["data fit"].detach()) for part in parts])
    assert mean == pytest.approx(float(fit.terms()["data fit"]))
    assert len({float(part["data fit"].detach()) for part in parts}) > 1


def test_with_fixed_features_the_optimum_is_that_of_a_logistic_regression() -> None:
    fit = made()
    for parameter in fit.network.features.parameters():
        parameter.requires_grad_(False)
    network, X, codes = fit.network, fit.X, codes_of(fit)
    fit.start = fit._weights().detach().clone()
    G = network.features(X).numpy() / np.sqrt(U)
    a0 = network.last.bias.detach().numpy().copy()

    def loss(theta: NDArray[np.float64]) -> float:
        W, a = theta[: U * C].reshape(U, C), theta[U * C :]
        fits = log_softmax(a + G @ W, axis=1)[np.arange(N), codes].sum()
        return float(-fits + ((W**2).sum() + ((a - a0) ** 2).sum()) / 8)

    best = minimize(loss, np.concatenate([np.zeros(U * C), a0]), method="BFGS")
    optimiser = torch.optim.LBFGS(list(fit.parameters()), max_iter=200, tolerance_grad=1e-9)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = -torch.stack(list(fit.batch_terms().values())).sum()
        value.backward()
        return value

    optimiser.step(closure)
    assert fit.bound() == pytest.approx(-best.fun, rel=1e-7)
    np.testing.assert_allclose(
        network.last.weight.detach(), best.x[: U * C].reshape(U, C), atol=1e-3
    )


def pictures_network() -> tuple[ClassifierNetwork, torch.Tensor]:
    data = np.random.default_rng(0).gamma(2.0, 30.0, (6, 8 * 10 * 2))
    standardiser = Standardiser.fit(data, [str(i) for i in range(data.shape[1])])
    X = torch.as_tensor(standardiser.transform(data))
    draws = torch.Generator().manual_seed(1)
    pixels = PixelScaling(standardiser, X, "8x10x2")
    features = ConvolutionalNetwork(pixels, 7, U, X, draws)
    return ClassifierNetwork(features, U, C, X), X


@pytest.mark.parametrize("kind", ["columns", "pictures"])
def test_relevance_is_the_mean_squared_slope_of_the_log_odds(kind: str) -> None:
    fit = made()
    network, X = (fit.network, fit.X[:6]) if kind == "columns" else pictures_network()
    disturb(network)
    network.measure_relevance(X)
    size, tolerance = (1e-6, 1e-6) if kind == "columns" else (1e-2, 0.05)
    for column in (0, X.shape[1] // 2, X.shape[1] - 1):
        step = torch.zeros_like(X)
        step[:, column] = size
        with torch.no_grad():
            slope = (network(X + step) - network(X - step)) / (2 * size)
        # log P differs from the log odds by what all classes share
        slope = slope - slope.mean(1, keepdim=True)
        expected = float(slope.square().sum(1).mean())
        assert float(network.column_relevance[column]) == pytest.approx(expected, rel=tolerance)
    W = network.last.weight.detach().numpy() / np.sqrt(U)
    expected_features = C * W.var(axis=1)
    np.testing.assert_allclose(network.feature_relevance.detach(), expected_features)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_codes_are_read_from_the_signs(n_classes: int) -> None:
    codes = np.random.default_rng(0).integers(0, n_classes, 30)
    signs = class_signs(codes, n_classes, torch.zeros(1, dtype=torch.float64))
    np.testing.assert_array_equal(class_codes(signs), codes)
