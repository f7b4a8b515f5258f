"""Metrics and shortest ways against closed forms, sampled functions and a search on a fine grid."""

import numpy as np
import pytest
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from lvmcore import VAE, BayesianGPLVM, geometry
from lvmcore.geometry import (
    constant_metric,
    magnification,
    segment_lengths,
    shortest_path,
    straight_path,
)
from lvmcore.numerics.array_types import FloatArray


def _points(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _half_plane(X: Tensor) -> Tensor:
    """The hyperbolic metric I/y², whose shortest ways are circles about places on the x axis."""
    return torch.eye(2).to(X) / X[:, 1, None, None].square()


def _flat(X: Tensor) -> Tensor:
    return constant_metric(torch.eye(2, dtype=X.dtype), X)


@pytest.fixture(scope="module")
def fitted() -> BayesianGPLVM:
    """A map of a bent sheet in five columns, one of them constant."""
    rng = np.random.default_rng(3)
    t = rng.uniform(-1.5, 1.5, (60, 2))
    Y = np.column_stack([t[:, 0], t[:, 1], np.sin(2 * t[:, 0]), t[:, 0] * t[:, 1], np.ones(60)])
    Y[:, :4] += 0.05 * rng.standard_normal((60, 4))
    return BayesianGPLVM(n_components=2, n_inducing=15, max_iter=150).fit(Y)


@pytest.mark.parametrize("ends", [((-1.0, 0.5), (1.5, 1.2)), ((0.0, 0.3), (0.4, 2.0))])
def test_the_shortest_way_in_the_half_plane(
    ends: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    a, b = _points(*ends)
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(rng.uniform((-2, 0.1), (2, 3), (400, 2)))
    path = shortest_path(_half_plane, a, b, rows, points=41)
    true = float(torch.arccosh(1 + (a - b).square().sum() / (2 * a[1] * b[1])))
    assert true <= path.distance[-1] + 1e-6
    assert path.distance[-1] == pytest.approx(true, rel=0.01)
    steps = np.diff(path.distance)
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.02)
    centre = float((b.square().sum() - a.square().sum()) / (2 * (b[0] - a[0])))
    radius = np.hypot(path.points[:, 0] - centre, path.points[:, 1])
    np.testing.assert_allclose(radius, radius[0], rtol=0.02)
    np.testing.assert_array_equal(path.points[[0, -1]], torch.stack([a, b]).numpy())


def test_a_straight_line_in_a_flat_map_is_the_shortest_way() -> None:
    W = torch.as_tensor(np.random.default_rng(1).normal(size=(6, 2)))
    a, b = _points((-1.0, 0.3), (0.8, 1.1))
    rows = torch.as_tensor(np.random.default_rng(2).normal(size=(50, 2)))

    def metric(X: Tensor) -> Tensor:
        return constant_metric(W, X)

    path, line = shortest_path(metric, a, b, rows, points=11), straight_path(metric, a, b, 11)
    np.testing.assert_allclose(path.points, line.points, atol=1e-6)
    assert line.distance[-1] == pytest.approx(float(torch.linalg.norm(W @ (b - a))))
    np.testing.assert_allclose(line.distance, np.linspace(0, line.distance[-1], 11))
    assert float(magnification(metric(rows))[0]) == pytest.approx(
        float(torch.linalg.det(W.T @ W).sqrt())
    )


def test_lengths_of_a_curve_add_up_to_the_integral() -> None:
    up = torch.stack([torch.zeros(300), torch.linspace(0.5, 4, 300)], 1).double()
    assert float(segment_lengths(_half_plane, up).sum()) == pytest.approx(np.log(8), rel=1e-9)


def test_uncertainty_keeps_the_path_near_the_rows() -> None:
    angle = np.linspace(0.3, 2 * np.pi - 0.3, 120)
    rows = torch.as_tensor(np.column_stack([np.cos(angle), np.sin(angle)]))

    def uncertainty(X: Tensor) -> Tensor:
        return 1 - torch.exp(-torch.cdist(X, rows).square().min(1).values / 0.02)

    free = shortest_path(_flat, rows[0], rows[-1], rows, points=33)
    held = shortest_path(_flat, rows[0], rows[-1], rows, points=33, uncertainty=uncertainty)
    assert free.distance[-1] == pytest.approx(2 * np.sin(0.3), rel=1e-3)
    assert uncertainty(torch.as_tensor(free.points)).max() > 0.9
    # A gap of 0.6 is too short to be worth the way around; half a circle is.
    half = shortest_path(_flat, rows[0], rows[60], rows, points=33, uncertainty=uncertainty)
    assert uncertainty(torch.as_tensor(half.points)).max() < 0.35
    assert half.distance[-1] == pytest.approx(angle[60] - angle[0], rel=0.05)
    assert held.distance[-1] < 1.1 * free.distance[-1]


def test_what_is_known_of_the_rows_does_not_depend_on_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a long table some rows are asked: in a sorted one the first of them are all alike."""
    monkeypatch.setattr(geometry, "BLOCK_POINTS", 20)
    rows = torch.as_tensor(np.column_stack([np.linspace(0, 1, 200), np.zeros(200)]))

    def uncertainty(X: Tensor) -> Tensor:
        return X[:, 0].clamp(0, 1)

    cost = geometry._penalised_metric(_flat, uncertainty, rows)
    backwards = geometry._penalised_metric(_flat, uncertainty, rows.flip(0))
    at = _points((0.5, 0.0))
    assert float(cost(at)[0, 0, 0]) == pytest.approx(1.0)
    assert float(backwards(at)[0, 0, 0]) == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_way_over_ground_where_nothing_changes_is_finite(dtype: torch.dtype) -> None:
    rows = torch.as_tensor(np.random.default_rng(5).normal(size=(30, 2))).to(dtype)

    def along_one(X: Tensor) -> Tensor:
        return constant_metric(torch.tensor([[1.0, 0.0]], dtype=dtype), X)

    a, b = torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=dtype)
    path = shortest_path(along_one, a, b, rows, points=9)
    assert np.isfinite(path.points).all()
    assert path.distance[-1] == pytest.approx(0.0, abs=1e-6)


def test_groups_far_apart_are_joined() -> None:
    rng = np.random.default_rng(4)
    rows = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 50])
    at = torch.as_tensor(np.concatenate([rows, rows[:5]]))  # some rows lie on one another
    path = shortest_path(_flat, at[0], at[70], at, points=9)
    assert path.distance[-1] == pytest.approx(float((at[0] - at[70]).norm()), rel=1e-3)


def test_from_a_point_to_itself_there_is_no_way_to_go() -> None:
    at = _points((0.2, 0.7))[0]
    path = shortest_path(_half_plane, at, at, torch.ones(5, 2).double(), points=7)
    np.testing.assert_array_equal(path.distance, np.zeros(7))
    np.testing.assert_array_equal(path.points, np.tile(at.numpy(), (7, 1)))


def test_the_metric_of_a_gaussian_process_is_that_of_functions_drawn_from_it(
    fitted: BayesianGPLVM,
) -> None:
    """Functions drawn jointly at a place and a small step away from it, their slopes averaged."""
    decoder, rng, h = fitted._decoder, np.random.default_rng(5), 1e-3
    for place in ((0.3, -0.4), (1.5, 2.0), (4.0, 4.0)):
        at = torch.tensor([place, (place[0] + h, place[1]), (place[0], place[1] + h)]).double()
        # Rounding of the coordinates matters at steps of this size: use the step as stored.
        step = at.numpy()[[1, 2], [0, 1]] - np.array(place)
        prior = decoder.kernel.variance * torch.exp(
            -0.5 * ((at[:, None] - at[None]) / decoder.kernel.lengthscales).square().sum(-1)
        )
        b = decoder.kernel(at, decoder.Z) @ decoder.basis
        mean = (decoder.kernel(at, decoder.Z) @ decoder.weights).numpy()
        total = np.zeros((2, 2))
        for d in range(mean.shape[1]):
            covariance = (prior - (b * decoder.shrinkage[:, d]) @ b.T).numpy()
            slope = np.array([[-1, 1, 0], [-1, 0, 1]]) / step[:, None]
            # Slopes of jointly normal values are normal: draw them from their own distribution.
            centre, spread = slope @ mean[:, d], slope @ covariance @ slope.T
            draws = rng.multivariate_normal(centre, spread, 40_000)
            total += draws.T @ draws / len(draws)
        np.testing.assert_allclose(fitted.latent_metric([place])[0], total, rtol=0.05, atol=0.05)


def test_far_away_the_metric_is_the_prior_s(fitted: BayesianGPLVM) -> None:
    kernel = fitted._decoder.kernel
    far = 4 * (kernel.variance / kernel.lengthscales.square()).numpy()  # 4 columns vary
    np.testing.assert_allclose(fitted.latent_metric([[1e3, -1e3]])[0], np.diag(far), rtol=1e-10)
    share = fitted._prior_variance_share(torch.tensor([[1e3, -1e3]]).double())
    assert float(share) == pytest.approx(1.0)


def test_uncertainty_is_the_share_of_the_prior_variance_that_is_left(fitted: BayesianGPLVM) -> None:
    places = np.random.default_rng(6).normal(size=(20, 2))
    decoded = fitted.decode(places)
    scale = fitted._standardiser.scale
    left = ((decoded.variance - decoded.noise_variance)[:, :4] / scale[:4] ** 2).mean(axis=1)
    share = left / float(fitted._decoder.kernel.variance)
    np.testing.assert_allclose(
        fitted._prior_variance_share(torch.as_tensor(places)).numpy(), share, atol=1e-9
    )


def test_the_way_on_a_fitted_map_against_a_fine_grid(fitted: BayesianGPLVM) -> None:
    mean = fitted.embedding_.mean
    a, b = mean[mean[:, 0].argmin()], mean[mean[:, 0].argmax()]
    path = fitted.latent_path(a, b, points=65)
    assert path.distance[-1] <= fitted.latent_path(a, b, along="line").distance[-1] * (1 + 1e-6)
    brute = _on_a_grid(fitted, path.points, a, b)
    assert path.distance[-1] == pytest.approx(brute, rel=0.03)


def _on_a_grid(model: BayesianGPLVM, around: FloatArray, a: FloatArray, b: FloatArray) -> float:
    """Length of the shortest path over a lattice with steps in 32 directions."""
    low, high = around.min(axis=0) - 0.5, around.max(axis=0) + 0.5
    n = 90
    x, y = (np.linspace(low[i], high[i], n) for i in (0, 1))
    places = np.column_stack([np.tile(x, n), np.repeat(y, n)])
    number = np.arange(n * n).reshape(n, n)
    steps = [(i, j) for i in range(-4, 5) for j in range(5) if np.gcd(i, j) == 1]
    pairs = []
    for i, j in steps:
        from_ = number[: n - j, max(0, -i) : n - max(0, i)]
        to = number[j:, max(0, i) : n + min(0, i)]
        pairs.append(np.column_stack([from_.ravel(), to.ravel()]))
    edges = np.vstack(pairs)
    delta = places[edges[:, 1]] - places[edges[:, 0]]
    G = model.latent_metric(0.5 * (places[edges[:, 0]] + places[edges[:, 1]]))
    weights = np.sqrt(np.einsum("ni,nij,nj->n", delta, G, delta))
    graph = coo_matrix((weights, edges.T), shape=(n * n, n * n))
    ends = [int(((places - end) ** 2).sum(axis=1).argmin()) for end in (a, b)]
    return float(dijkstra(graph, directed=False, indices=np.array(ends[0]))[ends[1]])


def test_a_way_leaves_the_parameters_of_a_network_as_they_are() -> None:
    X = np.random.default_rng(6).normal(size=(40, 3))
    model = VAE(n_components=2, n_hidden=8, max_iter=10).fit(X)
    model.latent_path(*model.embedding_.mean[:2])
    assert all(weight.grad is None for weight in model._network.parameters())
