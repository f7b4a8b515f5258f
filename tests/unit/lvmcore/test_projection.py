"""The principal 2-D view against linear algebra, sampling, and every other projection."""

import numpy as np
import pytest

from lvmcore import ProbabilisticPCA
from lvmcore.evaluation.map_dimensions import mean_metric
from lvmcore.numerics.array_types import FloatArray
from lvmcore.projection import LatentProjection, metric_root, principal_projection

Q = 5


@pytest.fixture
def latent() -> FloatArray:
    """Correlated points, not centred."""
    rng = np.random.default_rng(2)
    return rng.standard_normal((80, Q)) @ rng.standard_normal((Q, Q)) + rng.normal(size=Q)


@pytest.fixture
def metric() -> FloatArray:
    """Unequal directions, the weakest of which hardly changes the columns."""
    J = np.random.default_rng(3).standard_normal((7, Q)) * (3.0, 1.0, 0.5, 0.2, 1e-3)
    return np.asarray(J.T @ J)


def squared_distances(points: FloatArray, G: FloatArray | None = None) -> FloatArray:
    steps = points[:, None] - points[None]
    weights = np.eye(points.shape[1]) if G is None else G
    return np.asarray(np.einsum("nmq,qp,nmp->nm", steps, weights, steps))


def test_the_root_gives_the_distances_of_the_metric(latent: FloatArray, metric: FloatArray) -> None:
    found = squared_distances(latent @ metric_root(metric))
    np.testing.assert_allclose(found, squared_distances(latent, metric), rtol=1e-9)


def test_no_other_projection_keeps_more_of_the_squared_distances(
    latent: FloatArray, metric: FloatArray
) -> None:
    projection = principal_projection(latent, metric)
    best = squared_distances(projection.points(latent)).sum()
    R, rng = metric_root(metric), np.random.default_rng(5)
    around = np.linalg.lstsq(R, np.array(projection.weights), rcond=None)[0]
    np.testing.assert_allclose(around.T @ around, np.eye(2), atol=1e-9)
    for noise in (10.0, 0.1, 0.01):
        for _ in range(200):
            V = np.linalg.qr(around + noise * rng.standard_normal((Q, 2)))[0]
            assert squared_distances(latent @ R @ V).sum() < best
    # Never longer than the change of the columns.
    whole = squared_distances(latent, metric)
    assert (squared_distances(projection.points(latent)) <= whole + 1e-9).all()


def test_the_view_does_not_depend_on_the_latent_coordinates(
    latent: FloatArray, metric: FloatArray
) -> None:
    """Coordinates x A with the metric A⁻¹ G A⁻ᵀ are the same map, and the raw axes are not."""
    A = np.random.default_rng(7).standard_normal((Q, Q))
    inverse = np.linalg.inv(A)
    one = principal_projection(latent, metric).points(latent)
    two = principal_projection(latent @ A, inverse @ metric @ inverse.T).points(latent @ A)
    np.testing.assert_allclose(np.abs(two), np.abs(one), rtol=1e-6, atol=1e-8)


def test_the_view_of_a_linear_model_is_that_of_the_columns_themselves() -> None:
    """The principal components of the decoded rows, standardised."""
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 6)) * (1, 50, 1e-3, 2, 1, 1)
    model = ProbabilisticPCA(n_components=4).fit(Y + 0.1 * Y.std(axis=0) * rng.normal(size=Y.shape))
    mean = model.embedding_.mean
    decoded = model.decode(mean).mean / model.standardiser_.scale
    U, s, _ = np.linalg.svd(decoded - decoded.mean(axis=0), full_matrices=False)
    found = principal_projection(mean, mean_metric(model)).points(mean)
    np.testing.assert_allclose(np.abs(found), np.abs(U[:, :2] * s[:2]), rtol=1e-6, atol=1e-7)


def test_the_covariance_is_that_of_projected_draws(latent: FloatArray, metric: FloatArray) -> None:
    projection = principal_projection(latent, metric)
    rng = np.random.default_rng(4)
    variance = rng.gamma(1.0, 1.0, size=(3, Q))
    for row, (mean, s) in enumerate(zip(latent[:3], variance, strict=True)):
        draws = projection.points(mean + np.sqrt(s) * rng.standard_normal((200_000, Q)))
        expected = np.cov(draws, rowvar=False)
        found = projection.covariance(variance)[row]
        np.testing.assert_allclose(found, expected, rtol=0.03, atol=0.01 * expected.max())
        assert abs(found[0, 1]) > 0.1 * np.sqrt(found[0, 0] * found[1, 1])
        np.testing.assert_allclose(draws.mean(axis=0), projection.points(mean[None])[0], atol=0.05)


def test_a_point_of_the_plane_is_the_regression_of_the_rows(
    latent: FloatArray, metric: FloatArray
) -> None:
    projection = principal_projection(latent, metric)
    z = projection.points(latent)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.cov(z, rowvar=False)[0, 1], 0.0, atol=1e-9)
    design = np.column_stack([np.ones(len(z)), z])
    expected = design @ np.linalg.lstsq(design, latent, rcond=None)[0]
    np.testing.assert_allclose(projection.latent(z), expected, atol=1e-8)
    at = np.array([[0.3, -2.0], [1.0, 0.0]])
    for through in (None, latent[4]):
        points = projection.latent(at, through)
        np.testing.assert_allclose(projection.points(points), at, atol=1e-8)
    # Through a row: the plane holds the row itself, and is parallel to the other one.
    np.testing.assert_allclose(projection.latent(z[[4]], latent[4])[0], latent[4], atol=1e-8)
    steps = [np.diff(projection.latent(at, through), axis=0) for through in (None, latent[4])]
    np.testing.assert_allclose(*steps, atol=1e-8)


def test_signs_are_fixed_and_dead_dimensions_have_no_weight(latent: FloatArray) -> None:
    spread = latent * (1.0, 1.0, 1.0, 1.0, 0.0)
    G = np.diag([9.0, 4.0, 1.0, 0.0, 25.0])
    found = principal_projection(spread, G)
    assert isinstance(found, LatentProjection)
    assert found == principal_projection(spread, G)
    assert len({found, principal_projection(spread, G)}) == 1
    W = np.array(found.weights)
    np.testing.assert_allclose(W[3:], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.array(found.basis)[4], 0.0, atol=1e-9)
    strongest = np.abs(W * spread.std(axis=0)[:, None]).argmax(axis=0)
    assert (W[strongest, [0, 1]] > 0).all()


def test_rows_on_a_line_have_one_axis() -> None:
    line = np.linspace(-1, 1, 20)[:, None] * np.array([1.0, 2.0, 0.0])
    found = principal_projection(line, np.eye(3))
    np.testing.assert_allclose(found.points(line)[:, 1], 0.0, atol=1e-9)
    np.testing.assert_array_equal(np.array(found.basis)[:, 1], 0.0)
    np.testing.assert_allclose(found.latent(found.points(line)), line, atol=1e-9)
