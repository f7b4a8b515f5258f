"""What the Latent page computes, against the models themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from app.analysis.map import heatmaps
from app.analysis.map.heatmaps import HeatmapRequest, heatmap
from app.analysis.map.map_axes import axes_after_click, extent, latent_position, positions
from app.analysis.map.reconstruction import MapPoint, reconstruct
from app.analysis.map.row_colours import (
    MISSING,
    OTHER,
    CategoryStyle,
    NumericColours,
    category_style,
    row_colours,
)
from lvmcore import LDGD, NBVAE, BayesianGPLVM, ProbabilisticPCA
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset, Table
from lvmcore.errors import UnsupportedError
from lvmcore.export.categories import KEPT, MOST

Fitted = tuple[LatentVariableModel, Dataset]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Three groups in five columns of very different units, the last one constant."""
    rng = np.random.default_rng(5)
    labels = np.repeat(["a", "b", "c"], 20)
    X = rng.standard_normal((60, 4)) + 3 * (labels[:, None] == np.array(["a", "b", "c", "a"]))
    X = np.column_stack([X * (1.0, 100.0, 1e-3, 1.0) + (0.0, 5e3, 0.0, -2.0), np.full(60, 7.0)])
    return Dataset.from_arrays(X, labels, feature_names=["u", "v", "w", "s", "fixed"])


@pytest.fixture(scope="module")
def ldgd(dataset: Dataset) -> Fitted:
    model = LDGD(n_components=3, n_inducing=12, max_iter=60)
    return model.fit(dataset.X, dataset.labels), dataset


@pytest.fixture(scope="module")
def gplvm(dataset: Dataset) -> Fitted:
    return BayesianGPLVM(n_components=3, n_inducing=12, max_iter=60).fit(dataset.X), dataset


@pytest.fixture(scope="module")
def ppca(dataset: Dataset) -> Fitted:
    return ProbabilisticPCA(n_components=3).fit(dataset.X), dataset


# ---- axes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "dimension", "expected"),
    [((0, 1), 2, (2, 0)), ((0, 1), 1, (1, 0)), ((0, 1), 0, (1, 0)), ((0, None), 0, (0, None))],
)
def test_a_clicked_bar_goes_to_the_horizontal_axis(
    axes: tuple[int, int | None], dimension: int, expected: tuple[int, int | None]
) -> None:
    assert axes_after_click(axes, dimension) == expected


def test_positions_and_places_on_a_map() -> None:
    latent = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(positions(latent, (2, 0)), [[2, 0], [5, 3]])
    np.testing.assert_array_equal(positions(latent, (1, None)), [[1, 1], [4, 2]])
    assert latent_position((7.0, 8.0, 9.0), (2, 0), 1.0, 2.0) == (2.0, 8.0, 1.0)
    assert latent_position((7.0,), (0, None), 1.0, 2.0) == (1.0,)


def test_a_moved_point_leaves_its_row_and_remembers_where_it_started() -> None:
    start = MapPoint((1.0, 2.0, 3.0), row=4)
    once = start.moved((1.0, 9.0, 3.0))
    assert once == MapPoint((1.0, 9.0, 3.0), row=None, start=(1.0, 2.0, 3.0))
    twice = once.moved((0.0, 9.0, 3.0))
    assert twice == MapPoint((0.0, 9.0, 3.0), row=None, start=(1.0, 2.0, 3.0))


def test_the_extent_holds_all_points_with_room_around_them() -> None:
    (x0, x1), (y0, y1) = extent(np.array([[0.0, 5.0], [10.0, 5.0]]))
    assert x0 < 0
    assert x1 > 10
    assert y0 < 5 < y1


# ---- heatmaps --------------------------------------------------------------------------------

ASK = HeatmapRequest("sd", (2, 0), (0.0, 0.6, 0.0), size=7)


def latent_at(grid: object, i: int, j: int, held: float) -> list[list[float]]:
    return [[grid.y[j], held, grid.x[i]]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize(("i", "j"), [(0, 0), (6, 2), (3, 6)])
def test_the_sd_of_a_column_is_that_of_decode_in_the_columns_unit(
    gplvm: Fitted, noise: bool, i: int, j: int
) -> None:
    model, dataset = gplvm
    grid = heatmap(model, dataset, HeatmapRequest("sd", (2, 0), (0.0, 0.6, 0.0), 1, noise, size=7))
    expected = model.decode(latent_at(grid, i, j, 0.6))
    variance = expected.variance[0, 1] - (0 if noise else expected.noise_variance[0, 1])
    assert grid.value[j, i] == pytest.approx(np.sqrt(variance))
    assert grid.title.endswith("of v")


def test_the_mean_sd_is_over_columns_in_their_own_sds_without_constant_ones(
    gplvm: Fitted,
) -> None:
    model, dataset = gplvm
    grid = heatmap(model, dataset, ASK)
    sd = np.sqrt(model.decode(latent_at(grid, 4, 1, 0.6)).variance[0, :4])
    assert grid.value[1, 4] == pytest.approx(float((sd / dataset.X[:, :4].std(axis=0)).mean()))


def test_the_grid_covers_the_rows_on_the_chosen_axes(gplvm: Fitted) -> None:
    model, dataset = gplvm
    grid = heatmap(model, dataset, ASK)
    points = model.embedding_.mean[:, [2, 0]]
    assert grid.value.shape == (7, 7)
    assert grid.x[0] < points[:, 0].min() < points[:, 0].max() < grid.x[-1]
    assert grid.y[0] < points[:, 1].min() < points[:, 1].max() < grid.y[-1]


def test_few_cells_at_a_time_give_the_same_grid(
    gplvm: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = heatmap(*gplvm, ASK).value
    monkeypatch.setattr("app.analysis.map.heatmaps.CELLS", 20)
    np.testing.assert_allclose(heatmap(*gplvm, ASK).value, whole, rtol=1e-12)


def test_the_magnification_is_that_of_the_displayed_dimensions(gplvm: Fitted) -> None:
    model, _ = gplvm
    grid = heatmap(*gplvm, HeatmapRequest("magnification", (2, 0), (0.0, 0.6, 0.0), size=7))
    G = model.latent_metric([[grid.y[i], 0.6, grid.x[j]] for i, j in ((1, 2), (6, 0))])
    for (i, j), metric in zip(((1, 2), (6, 0)), G, strict=True):
        block = metric[np.ix_([0, 2], [0, 2])]
        assert grid.value[i, j] == pytest.approx(np.sqrt(np.linalg.det(block)))
    line = heatmap(*gplvm, HeatmapRequest("magnification", (1, None), (0.3, 0.0, 0.1), size=5))
    at = [[0.3, x, 0.1] for x in line.x]
    np.testing.assert_allclose(line.value[0], np.sqrt(model.latent_metric(at)[:, 1, 1]))


@pytest.mark.parametrize(("i", "j"), [(0, 0), (6, 2), (3, 6)])
def test_class_heatmaps_are_those_of_decode_labels(ldgd: Fitted, i: int, j: int) -> None:
    def value(kind: str, label: int | None = None) -> tuple[float, object]:
        grid = heatmap(*ldgd, HeatmapRequest(kind, (2, 0), (0.0, 0.6, 0.0), label=label, size=7))  # type: ignore[arg-type]
        return grid.value[j, i], grid

    entropy, grid = value("entropy")
    expected = ldgd[0].decode_labels(latent_at(grid, i, j, 0.6))
    p = expected.probability[0]
    assert entropy == pytest.approx(-(p * np.log(p)).sum())
    assert grid.limits == pytest.approx((0.0, np.log(3)))  # type: ignore[attr-defined]
    for k in range(3):
        assert value("probability", k)[0] == pytest.approx(p[k])
        assert value("probability variance", k)[0] == pytest.approx(expected.variance[0, k])


def test_a_class_heatmap_names_its_class_and_has_fixed_limits(ldgd: Fitted) -> None:
    grid = heatmap(*ldgd, HeatmapRequest("probability", (0, 1), (0.0,) * 3, label=1, size=4))
    assert grid.title == "probability of b"
    assert grid.limits == (0.0, 1.0)
    assert not grid.low_is_certain


def test_a_class_heatmap_without_a_class_is_refused(ldgd: Fitted) -> None:
    with pytest.raises(ValueError, match="needs a class"):
        heatmap(*ldgd, HeatmapRequest("probability", (0, 1), (0.0,) * 3, size=4))


def test_a_model_without_labels_has_no_class_heatmap(ppca: Fitted) -> None:
    with pytest.raises(UnsupportedError):
        heatmap(*ppca, HeatmapRequest("entropy", (0, 1), (0.0,) * 3, size=4))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounding_is_no_uncertainty(dtype: str) -> None:
    counts = np.random.default_rng(0).poisson(80.0, (40, 3)).astype(float)
    dataset = Dataset.from_arrays(counts)
    model = NBVAE(n_components=2, max_iter=5, dtype=dtype).fit(counts)
    grid = heatmap(model, dataset, HeatmapRequest("sd", (0, 1), (0.0, 0.0), size=6, noise=False))
    assert grid.flat
    assert not grid.value.any()


def test_a_linear_models_sd_is_flat_and_a_gps_is_not(ppca: Fitted, gplvm: Fitted) -> None:
    assert heatmap(*ppca, ASK).flat
    assert not heatmap(*gplvm, ASK).flat


# ---- reconstructions -------------------------------------------------------------------------


def test_a_reconstruction_is_that_of_decode_in_the_datas_units(ldgd: Fitted) -> None:
    model, dataset = ldgd
    latent = tuple(model.embedding_.mean[7].tolist())
    found = reconstruct(model, dataset, latent)
    expected = model.decode([latent])
    np.testing.assert_allclose(found.mean, expected.mean[0])
    np.testing.assert_allclose(found.sd**2, expected.variance[0])
    np.testing.assert_allclose(found.centre, dataset.X.mean(axis=0))
    np.testing.assert_allclose(found.scale[:4], dataset.X[:, :4].std(axis=0))
    np.testing.assert_array_equal(found.varies, [True] * 4 + [False])
    (probability,) = found.probability
    np.testing.assert_allclose(probability, model.decode_labels([latent]).probability[0])


@pytest.fixture(scope="module")
def amounts() -> Dataset:
    """Two columns of amounts with heavy tails, learned as log(1 + x), and one as it is."""
    rng = np.random.default_rng(8)
    hidden = rng.standard_normal((80, 1))
    X = hidden * (1.0, 0.5, 3.0) + (3.0, 2.0, 0.0) + 0.3 * rng.standard_normal((80, 3))
    frame = pd.DataFrame({"p": np.expm1(X[:, 0]), "q": np.expm1(X[:, 1]), "r": X[:, 2]})
    return Table.from_frame(frame, name="amounts").dataset(log1p=["p", "q"])


def test_an_interval_of_log1p_holds_the_share_that_a_simulation_gives(amounts: Dataset) -> None:
    model = ProbabilisticPCA(n_components=1).fit(amounts.X)
    found = reconstruct(model, amounts, (0.8,))
    predicted = model.decode([(0.8,)])
    rng = np.random.default_rng(11)
    draws = rng.normal(predicted.mean[0], np.sqrt(predicted.variance[0]), (400_000, 3))
    draws[:, :2] = np.exp(draws[:, :2]) - 1
    np.testing.assert_allclose(np.median(draws, axis=0), found.value, rtol=0.01)
    inside = ((draws > found.low) & (draws < found.high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.9545, atol=0.002)
    np.testing.assert_allclose((draws < found.low).mean(axis=0), 0.02275, atol=0.001)
    reach = found.high - found.value, found.value - found.low
    assert (reach[0][:2] > 1.2 * reach[1][:2]).all()
    assert reach[0][2] == pytest.approx(reach[1][2])


def test_the_sd_of_a_column_learned_as_log1p_says_so(amounts: Dataset) -> None:
    fitted = ProbabilisticPCA(n_components=2).fit(amounts.X), amounts
    grid = heatmap(*fitted, HeatmapRequest("sd", (0, 1), (0.0, 0.0), column=0, size=4))
    assert grid.title == "predictive sd of log(1 + p)"
    assert grid.unit == "scale of the fit, a logarithm"
    grid = heatmap(*fitted, HeatmapRequest("sd", (0, 1), (0.0, 0.0), noise=False, size=4))
    assert grid.title == "predictive sd without noise, mean over columns"


def test_the_decoded_mean_is_that_of_each_point_in_the_unit_of_the_column(
    gplvm: Fitted, amounts: Dataset
) -> None:
    model, rows = gplvm
    grid = heatmap(model, rows, HeatmapRequest("mean", (2, 0), (0.0, 0.3, 0.0), column=1, size=5))
    points = [(y, 0.3, x) for y in grid.y for x in grid.x]
    np.testing.assert_allclose(grid.value.ravel(), model.decode(points).mean[:, 1])
    assert (grid.title, grid.unit) == ("decoded v", "unit of the column")
    linear = ProbabilisticPCA(n_components=2).fit(amounts.X)
    grid = heatmap(linear, amounts, HeatmapRequest("mean", (0, 1), (0.0, 0.0), column=0, size=4))
    for i, j in ((0, 0), (3, 2)):
        found = reconstruct(linear, amounts, (grid.x[j], grid.y[i]))
        assert grid.value[i, j] == pytest.approx(found.value[0])


def test_a_model_without_labels_gives_no_class_probabilities(ppca: Fitted) -> None:
    assert reconstruct(*ppca, (0.0, 0.0, 0.0)).probability == ()


# ---- colours ---------------------------------------------------------------------------------


def test_categories_are_in_order_with_missing_ones_apart() -> None:
    found = category_style(pd.Series(["b", None, "a", "b"]), "kind")
    assert found.names == ("a", "b")
    assert found.codes.tolist() == [1, MISSING, 0, 1]


def test_classes_that_are_numbers_are_in_order_of_size() -> None:
    assert category_style(pd.Series(["10", "9", "-1"]), "digit").names == ("-1", "9", "10")


def test_too_many_categories_keep_the_most_frequent() -> None:
    cells = [f"c{i:02d}" for i in range(MOST + 5) for _ in range(1 + (i == MOST + 4))]
    found = category_style(pd.Series(cells), "kind")
    assert len(found.names) == KEPT
    assert f"c{MOST + 4:02d}" in found.names
    assert (found.codes == OTHER).sum() == found.others == MOST + 5 - KEPT
    all_of_them = category_style(pd.Series(cells[:MOST]), "kind")
    assert (len(all_of_them.names), all_of_them.others) == (MOST, 0)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.Series([0.5, 1.5, np.nan]), NumericColours),
        (pd.Series(range(50)), NumericColours),
        (pd.Series([0, 1, 1, 0]), CategoryStyle),
        (pd.Series([1.0, 2.0, np.nan]), CategoryStyle),
        (pd.Series([True, False]), CategoryStyle),
        (pd.Series(["x", "y"]), CategoryStyle),
        (pd.Series(pd.to_datetime(["2015-01-01", "2015-01-03"])), NumericColours),
        (pd.Series([None, None], dtype=object), CategoryStyle),
    ],
)
def test_what_a_column_is_drawn_as(column: pd.Series, kind: type) -> None:
    assert isinstance(row_colours(column, "name"), kind)


def test_dates_are_days_since_the_first() -> None:
    found = row_colours(pd.Series(pd.to_datetime(["2015-01-03", None, "2015-01-01"])), "date")
    assert isinstance(found, NumericColours)
    np.testing.assert_array_equal(found.values, [2.0, np.nan, 0.0])
    assert "2015-01-01" in found.title


# ---- wide tables -----------------------------------------------------------------------------


def test_the_heatmap_of_a_wide_table_is_coarser_and_the_same_surface(
    gplvm: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, dataset = gplvm
    ask = HeatmapRequest("sd", (0, 1), (0.0, 0.0, 0.0))
    assert len(heatmap(model, dataset, ask).x) == 60
    monkeypatch.setattr(heatmaps, "MOST_DECODED", 30 * 30 * dataset.X.shape[1])
    coarse = heatmap(model, dataset, ask)
    assert coarse.value.shape == (30, 30)
    np.testing.assert_array_equal(
        coarse.value, heatmap(model, dataset, replace(ask, size=30)).value
    )
    monkeypatch.setattr(heatmaps, "MOST_DECODED", 1)
    assert len(heatmap(model, dataset, ask).x) == heatmaps.COARSEST


def test_the_columns_that_tell_most_of_a_place(ppca: Fitted) -> None:
    model, dataset = ppca
    found = reconstruct(model, dataset, tuple(model.embedding_.mean[7]))
    observed = dataset.X[7].copy()
    sd = np.where(found.sd > 0, found.sd, 1.0)  # of a constant column it is 0
    away = np.abs(observed - found.mean) / sd
    observed[int(away.argmax())] = np.nan  # a missing cell tells nothing
    order = np.argsort(-np.abs(np.nan_to_num((observed - found.mean) / sd)), kind="stable")
    told = found.most_deviating(observed, 2)
    assert told.tolist() == sorted(order[:2].tolist())
    assert int(away.argmax()) not in told
    alone = np.abs((found.mean - found.centre) / found.scale)
    assert found.most_deviating(None, 1).tolist() == [int(alone.argmax())]
    part = found.subset(told)
    np.testing.assert_array_equal(part.value, found.value[told])
    np.testing.assert_array_equal(part.varies, found.varies[told])
    assert part.probability is found.probability
