"""The map on a projection of all dimensions: positions, posteriors, heatmaps, regions, files."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from app.analysis.map.heatmaps import HeatmapRequest, heatmap
from app.analysis.map.map_axes import (
    ASPECT,
    basis,
    covariances,
    extent,
    latent_position,
    latent_positions,
    positions,
)
from app.analysis.map.region_probability import probability_in_region
from app.analysis.map.regions import Region
from app.analysis.map.selection_masks import selected_rows
from app.analysis.map.selections import describe_selection, from_json, to_json
from app.figures import latent_map
from app.figures.row_traces import MapRows
from lvmcore import BayesianGPLVM
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.evaluation.map_dimensions import best_view
from lvmcore.export.map_picture import map_picture
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.projection import LatentProjection
from lvmcore.results import Posterior
from tests.app.figures.test_canvas_scene import scene
from tests.scenes import drawn

BOX = ((-1.0, 0.0), (1.5, 0.0), (1.5, 2.0), (-1.0, 2.0))


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Four independent sources in six columns."""
    rng = np.random.default_rng(8)
    sources = rng.standard_normal((70, 4)) * (3.0, 2.0, 1.5, 1.0)
    X = sources @ np.linalg.qr(rng.standard_normal((6, 6)))[0][:4]
    X += 0.1 * rng.standard_normal((70, 6))
    return Dataset.from_arrays(X, np.where(sources[:, 0] > 0, "a", "b"), name="sources")


@pytest.fixture(scope="module")
def model(dataset: Dataset) -> BayesianGPLVM:
    return BayesianGPLVM(n_components=4, n_inducing=15, max_iter=120).fit(dataset.X)


@pytest.fixture(scope="module")
def view(model: BayesianGPLVM) -> LatentProjection:
    found = best_view(model)
    assert found is not None
    return found


def test_positions_and_points_are_inverse(model: BayesianGPLVM, view: LatentProjection) -> None:
    mean = model.embedding_.mean
    np.testing.assert_array_equal(positions(mean, view), view.points(mean))
    held = tuple(mean[3].tolist())
    at = latent_position(held, view, 0.7, -1.2)
    np.testing.assert_allclose(positions(np.array([at]), view), [[0.7, -1.2]], atol=1e-9)
    # What the map does not show stays that of the held point: the step lies in the plane.
    step = np.array(at) - mean[3]
    B = basis(view, 4)
    np.testing.assert_allclose(B @ np.linalg.lstsq(B, step, rcond=None)[0], step, atol=1e-9)
    np.testing.assert_array_equal(basis((2, 0), 4), np.eye(4)[:, [2, 0]])
    np.testing.assert_array_equal(basis((1, None), 4), np.eye(4)[:, [1]])


def test_the_ranges_hold_the_rows_in_the_aspect_of_the_plot(view: LatentProjection) -> None:
    points = np.random.default_rng(0).standard_normal((30, 2)) * (1.0, 9.0)
    for swapped in (points, points[:, ::-1]):
        (left, right), (low, high) = extent(swapped, view)
        assert (right - left) / (high - low) == pytest.approx(ASPECT)
        assert left < swapped[:, 0].min() < swapped[:, 0].max() < right
        assert low < swapped[:, 1].min() < swapped[:, 1].max() < high
    assert extent(points, (0, 1)) == extent(points)


def test_the_heatmap_decodes_the_plane(
    model: BayesianGPLVM, dataset: Dataset, view: LatentProjection
) -> None:
    ask = HeatmapRequest("sd", view, view.centre, column=2, noise=False, size=5)
    grid = heatmap(model, dataset, ask)
    at = np.array([[grid.x[3], grid.y[1]]])
    latent = np.array(view.centre) + at @ np.array(view.basis).T
    predicted = model.decode(latent)
    sd = np.sqrt(predicted.variance - predicted.noise_variance)[0, 2]
    assert grid.value[1, 3] == pytest.approx(sd)
    (left, right), _ = extent(positions(model.embedding_.mean, view), view)
    assert (grid.x[0], grid.x[-1]) == (left, right)


def test_the_magnification_is_the_area_of_a_decoded_step(
    model: BayesianGPLVM, dataset: Dataset, view: LatentProjection
) -> None:
    """√det of the Gram matrix of the steps of the columns, by finite differences."""
    ask = HeatmapRequest("magnification", view, view.centre, size=3)
    found = heatmap(model, dataset, ask)
    at = np.array([[found.x[1], found.y[1]]])
    G = model.latent_metric(latent_positions(view.centre, view, at))[0]
    steps = [
        latent_position(view.centre, view, *(at[0] + shift)) for shift in ((0, 0), (1, 0), (0, 1))
    ]
    a, b = np.array(steps[1:]) - steps[0]
    gram = np.array([[a @ G @ a, a @ G @ b], [b @ G @ a, b @ G @ b]])
    assert found.value[1, 1] == pytest.approx(np.sqrt(np.linalg.det(gram)))


def test_ellipses_have_the_covariance_of_the_posterior(view: LatentProjection) -> None:
    rng = np.random.default_rng(2)
    variance = rng.gamma(1.0, 1.0, size=(5, 4))
    found = covariances(variance, view)
    np.testing.assert_allclose(found, view.covariance(variance))
    sd = np.sqrt(found[:, [0, 1], [0, 1]])
    rows = MapRows(
        points=np.zeros((5, 2)),
        number=np.arange(5),
        hover=[["r"]] * 5,
        sd=sd,
        correlation=found[:, 0, 1] / sd.prod(axis=1),
    )
    line = latent_map.ellipses(rows.points, sd, False, rows.correlation)
    path = np.column_stack([line.x, line.y]).reshape(5, -1, 2)[:, :-1]
    # Every corner is at two sd in the metric of the inverse covariance, and they go all round.
    distance = np.einsum("nka,nab,nkb->nk", path, np.linalg.inv(found), path)
    np.testing.assert_allclose(distance, 4.0)
    np.testing.assert_allclose(path[:, :-1].mean(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(drawn(scene(rows)).array("correlation"), rows.correlation, rtol=1e-6)
    plain = covariances(variance, (2, 0))
    np.testing.assert_array_equal(plain[:, [0, 1], [0, 1]], variance[:, [2, 0]])
    assert not plain[:, 0, 1].any()
    np.testing.assert_array_equal(covariances(variance, (1, None))[:, 1], 0.0)


def test_the_probability_of_a_region_has_the_correlation(view: LatentProjection) -> None:
    """Against draws of q(x) in all dimensions."""
    rng = np.random.default_rng(4)
    mean = 0.5 * rng.normal(size=(40, 4))
    variance = rng.gamma(1.0, 0.3, size=(40, 4))
    found = probability_in_region(Region(view, (BOX,)), Posterior(mean, variance))
    low, high = np.array(BOX).min(axis=0), np.array(BOX).max(axis=0)
    draws = mean + np.sqrt(variance) * rng.standard_normal((20_000, 40, 4))
    points = view.points(draws.reshape(-1, 4)).reshape(20_000, 40, 2)
    exact = ((points >= low) & (points <= high)).all(axis=2).mean(axis=0)
    error = np.sqrt(np.maximum(exact * (1 - exact), 1e-3) / found.draws)
    assert (np.abs(found.probability - exact) < 4.5 * error).all()
    assert exact.max() > 0.2


def test_a_region_is_kept_with_its_projection(
    model: BayesianGPLVM, dataset: Dataset, view: LatentProjection
) -> None:
    region = Region(view, (BOX,))
    read = from_json(json.loads(json.dumps(to_json(region))), 4)
    assert read == region
    assert describe_selection(read) == "drawn on the best 2-D view"
    points = view.points(model.embedding_.mean)
    inside = ((points >= (-1.0, 0.0)) & (points <= (1.5, 2.0))).all(axis=1)
    np.testing.assert_array_equal(selected_rows(read, model.embedding_.mean, dataset), inside)
    assert 0 < inside.sum() < 70
    for dimensions, stored in ((3, to_json(region)), (4, to_json(region) | {"axes": {}})):
        with pytest.raises(DataError, match="selection is invalid"):
            from_json(stored, dimensions)


def test_the_table_has_the_positions_of_the_view(
    model: BayesianGPLVM, dataset: Dataset, view: LatentProjection
) -> None:
    frame = embedding_frame(model, dataset, view)
    points, covariance = (
        positions(model.embedding_.mean, view),
        view.covariance(model.embedding_.variance),
    )
    np.testing.assert_array_equal(frame[["view1", "view2"]], points)
    np.testing.assert_array_equal(frame["view2_sd"], np.sqrt(covariance[:, 1, 1]))
    np.testing.assert_array_equal(frame["view_covariance"], covariance[:, 0, 1])
    without = embedding_frame(model, dataset)
    assert list(frame)[: len(list(without))] == list(without)


def test_the_picture_for_print_shows_the_view(
    model: BayesianGPLVM, dataset: Dataset, view: LatentProjection
) -> None:
    shown = [
        np.asarray(Image.open(io.BytesIO(map_picture(model, dataset, axes, "png", sd_behind=True))))
        for axes in (view, (0, 1))
    ]
    assert shown[0].shape == shown[1].shape
    assert (shown[0] != shown[1]).any()
