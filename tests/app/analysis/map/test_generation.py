"""Rows along curves and rows drawn from a model, and how they are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from app.analysis.map.generation import (
    GeneratedRows,
    central_position,
    decode_path,
    decode_sweep,
    generated_table,
    most_changed_columns,
    path_table,
)
from app.analysis.map.reconstruction import reconstruct
from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle, NumericColours
from app.figures import palette
from app.views.generate import cursor_charts, figures
from lvmcore import LDGD, PCA, BayesianGPLVM
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset, Table
from lvmcore.errors import ConfigError, UnsupportedError

Fitted = tuple[LatentVariableModel, Dataset]
NASTY = "<img src=x onerror=alert(1)>"


def _dataset() -> Dataset:
    rng = np.random.default_rng(8)
    t = rng.uniform(-1, 1, (40, 2))
    frame = pd.DataFrame(
        {
            "length": 10 + 2 * t[:, 0] + 0.1 * rng.standard_normal(40),
            "count": np.round(np.exp(3 + t[:, 1])),
            NASTY: t[:, 0] ** 2 + 0.1 * rng.standard_normal(40),
            "flat": np.full(40, 7.0),
            "kind": np.where(t[:, 0] > 0, "high", "low"),
        }
    )
    table = Table.from_frame(frame, name="made")
    features = ["length", "count", NASTY, "flat"]
    return table.dataset(features=features, label="kind", log1p=["count"])


@pytest.fixture(scope="module")
def ldgd() -> Fitted:
    dataset = _dataset()
    model = LDGD(n_components=2, n_inducing=8, max_iter=40)
    return model.fit(dataset.X, dataset.labels), dataset


@pytest.fixture(scope="module")
def pca() -> Fitted:
    dataset = _dataset()
    return PCA(n_components=2).fit(dataset.X), dataset


# ---- along a line ----------------------------------------------------------------------------


def test_a_path_is_decoded_in_the_data_s_units(ldgd: Fitted) -> None:
    model, dataset = ldgd
    path = model.latent_path(*model.embedding_.mean[[0, 1]], points=5)
    found = decode_path(model, dataset, path)
    np.testing.assert_array_equal(found.at, path.distance)
    for i in range(5):
        one = reconstruct(model, dataset, tuple(path.points[i].tolist()))
        np.testing.assert_allclose(found.value[i], one.value)
        np.testing.assert_allclose(found.low[i], one.low)
        np.testing.assert_allclose(found.high[i], one.high)
    assert found.change[3] == 0  # a column that never varies
    assert most_changed_columns(found, 2) == np.argsort(-found.change)[:2].tolist()
    assert (found.value[:, 1] > -1).all()  # learned as log(1 + x), told as x


def test_a_sweep_moves_one_dimension_over_the_range_of_the_rows(ldgd: Fitted) -> None:
    model, dataset = ldgd
    found = decode_sweep(model, dataset, 1, (0.4, -9.0), 7)
    mean = model.embedding_.mean[:, 1]
    assert (found.at[0], found.at[-1]) == (mean.min(), mean.max())
    np.testing.assert_array_equal(found.latent[:, 0], np.full(7, 0.4))
    np.testing.assert_array_equal(found.latent[:, 1], found.at)


def test_a_line_as_a_table_holds_each_column_with_its_interval(ldgd: Fitted) -> None:
    model, dataset = ldgd
    found = decode_sweep(model, dataset, 0, (0.0, 0.0), 4)
    frame = path_table(found, dataset, "latent dimension 1")
    assert frame.columns[:5].tolist() == [
        "latent dimension 1", "latent_1", "latent_2", "length", "length: low",
    ]  # fmt: skip
    assert frame.shape == (4, 3 + 3 * 4)
    assert (frame["count: low"] < frame["count"]).all()
    assert (frame["count"] < frame["count: high"]).all()


def test_columns_named_like_those_of_the_table_of_a_line_keep_their_cells() -> None:
    names = ["a", "a: low", "latent_1", "place"]
    X = np.random.default_rng(2).normal(size=(20, 4))
    dataset = Dataset.from_arrays(X, None, names, name="t")
    model = PCA(n_components=1).fit(X)
    found = decode_sweep(model, dataset, 0, (0.0,), 5)
    frame = path_table(found, dataset, "place")
    assert frame.columns.is_unique
    assert frame.shape == (5, 2 + 3 * 4)
    np.testing.assert_array_equal(frame[names].to_numpy(), found.value)
    np.testing.assert_array_equal(frame["place (2)"], found.at)
    np.testing.assert_array_equal(frame["latent_1 (2)"], found.latent[:, 0])
    np.testing.assert_array_equal(frame["a: low (2)"], found.low[:, 0])
    np.testing.assert_array_equal(frame["a: low: low"], found.low[:, 1])


def test_the_middle_of_some_rows_is_one_of_them() -> None:
    mean = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [50.0, 50.0]])
    assert central_position(mean, np.array([True, True, True, False])) == 1
    assert central_position(mean, np.array([False, False, False, True])) == 3


# ---- drawn rows ------------------------------------------------------------------------------


def test_drawn_rows_tell_where_they_come_from(ldgd: Fitted) -> None:
    model, dataset = ldgd
    draw = GeneratedRows(300, 5, ("kind", "high"), None, "kind: high")
    frame = generated_table(model, dataset, draw, "0123456789abcdef")
    expected = dataset.original_units(model.sample(300, label="high", random_state=5))
    np.testing.assert_array_equal(frame[list(dataset.feature_names)].to_numpy(), expected)
    assert set(frame["drawn_from"]) == {"kind: high"}
    assert set(frame["seed"]) == {5}
    assert set(frame["model"]) == {"0123456789abcdef"}
    assert frame["length"].mean() > dataset.X[:, 0].mean()
    other = generated_table(model, dataset, GeneratedRows(300, 6, ("kind", "high"), None, "x"), "d")
    assert not frame["length"].equals(other["length"])


def test_rows_are_drawn_from_a_selection_of_any_model_that_decodes(pca: Fitted) -> None:
    model, dataset = pca
    rows = tuple(np.argsort(dataset.X[:, 0])[-5:].tolist())
    frame = generated_table(model, dataset, GeneratedRows(200, 0, None, rows, "the selection"), "d")
    assert frame["length"].mean() > dataset.X[:, 0].mean() + dataset.X[:, 0].std()
    with pytest.raises(UnsupportedError, match="cannot draw new rows"):
        generated_table(model, dataset, GeneratedRows(2, 0, None, None, "the prior"), "d")
    with pytest.raises(ConfigError, match="expected positions"):
        generated_table(model, dataset, GeneratedRows(2, 0, None, (400,), "no such row"), "d")


def test_a_column_named_like_what_is_told_keeps_its_cells() -> None:
    rng = np.random.default_rng(0)
    dataset = Dataset.from_arrays(rng.normal(size=(20, 2)), None, ["seed", "other"], name="t")
    model = BayesianGPLVM(n_components=1, n_inducing=5, max_iter=5).fit(dataset.X)
    frame = generated_table(model, dataset, GeneratedRows(4, 9, None, None, "the prior"), "d")
    assert frame.columns.tolist() == ["seed", "other", "drawn_from", "seed of the draw", "model"]
    assert frame["seed of the draw"].tolist() == [9] * 4


def test_no_two_columns_of_drawn_rows_have_one_name() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    dataset = Dataset.from_arrays(X, None, ["seed", "seed of the draw"], name="t")
    model = BayesianGPLVM(n_components=1, n_inducing=5, max_iter=5).fit(X)
    frame = generated_table(model, dataset, GeneratedRows(4, 9, None, None, "the prior"), "d")
    assert frame.columns.is_unique
    assert frame["seed of the draw (2)"].tolist() == [9] * 4


# ---- figures ---------------------------------------------------------------------------------


def test_curves_are_drawn_with_their_bands_and_inert_names(ldgd: Fitted) -> None:
    model, dataset = ldgd
    found = decode_sweep(model, dataset, 0, (0.0, 0.0), 9)
    figure = figures.curves_figure(found, [0, 2], dataset.feature_names, "latent 1", dark=False)
    band, line = figure.data[:2]
    np.testing.assert_array_equal(line.y, found.value[:, 0])
    np.testing.assert_array_equal(band.y, np.concatenate([found.low[:, 0], found.high[::-1, 0]]))
    titles = [note.text for note in figure.layout.annotations]
    assert titles[0] == "length"
    assert "<img" not in "".join(titles)


def test_a_strip_shows_images_and_how_sure_they_are() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 16, (30, 6))
    model = BayesianGPLVM(n_components=1, n_inducing=5, max_iter=10).fit(X)
    dataset = Dataset.from_arrays(X, None, [f"p{i}" for i in range(6)], name="images")
    found = decode_sweep(model, dataset, 0, (0.0,), 11)
    figure = figures.strip_figure(found, (2, 3), (0.0, 16.0), "latent 1", most=5, dark=True)
    assert len(figure.data) == 10
    images = [trace for trace in figure.data if trace.zmax == 16.0]
    np.testing.assert_allclose(images[0].z, found.value[0].reshape(2, 3))
    np.testing.assert_allclose(images[-1].z, found.value[-1].reshape(2, 3))
    widths = [trace for trace in figure.data if trace.zmax != 16.0]
    np.testing.assert_allclose(widths[0].z, (found.high - found.low)[0].reshape(2, 3))


def test_the_row_under_the_cursor_as_lines_and_as_a_profile(ldgd: Fitted) -> None:
    model, dataset = ldgd
    row = reconstruct(model, dataset, (0.2, 0.1))
    options = cursor_charts.row_chart(dataset.feature_names, row, (-4.0, 4.0), dark=False)
    low, width, mean = (series["data"] for series in options["series"])
    z = (row.mean - row.centre) / row.scale
    np.testing.assert_allclose([value for value, _ in mean], z, atol=1e-4)
    reach = 2 * row.sd / row.scale
    np.testing.assert_allclose(low, z - reach, atol=1e-4)
    np.testing.assert_allclose(width, 2 * reach, atol=2e-4)
    names = [f"column {i}" for i in range(60)]
    wide = Dataset.from_arrays(
        np.random.default_rng(2).normal(size=(30, 60)), None, names, name="w"
    )
    many = PCA(n_components=2).fit(wide.X)
    profile = cursor_charts.row_chart(
        names, reconstruct(many, wide, (0.0, 0.0)), (-4, 4), dark=True
    )
    assert [series["type"] for series in profile["series"]] == ["line"] * 3
    assert profile["xAxis"]["type"] == "category"


def test_an_interval_beyond_the_axis_ends_at_it(ldgd: Fitted) -> None:
    model, dataset = ldgd
    row = reconstruct(model, dataset, (0.2, 0.1))
    options = cursor_charts.row_chart(dataset.feature_names, row, (-0.01, 0.01), dark=False)
    low, width, _ = (np.array(series["data"]) for series in options["series"])
    assert (low >= -0.01).all()
    assert (low + np.array(width) <= 0.01 + 1e-9).all()


def test_a_decoded_image_and_its_doubt() -> None:
    X = np.random.default_rng(3).uniform(0, 10, (30, 6))
    names = [f"p{i}" for i in range(6)]
    dataset = Dataset.from_arrays(X, None, names, name="images")
    model = BayesianGPLVM(n_components=1, n_inducing=5, max_iter=10).fit(X)
    row = reconstruct(model, dataset, (0.0,))
    image, doubt, most = cursor_charts.images(row, (2, 3), (0.0, 10.0), dark=False)
    assert image.shape == doubt.shape
    assert image.shape[0] * 3 == image.shape[1] * 2
    times = image.shape[1] // 3
    shown = image[::times, ::times, 0].ravel()
    np.testing.assert_allclose(shown, 25.5 * row.value.clip(0, 10), atol=1.01)
    assert most == pytest.approx((row.high - row.low).max())


def test_colours_of_rows_drawn_by_hand() -> None:
    codes = np.array([0, 1, OTHER, MISSING])
    looks, found = palette.row_palette(CategoryStyle("g", ("a", "b"), codes, 3), 4, dark=False)
    assert [looks[k][1] for k in found] == ["circle", "circle", "circle", "circle-open"]
    assert looks[found[0]][0] != looks[found[1]][0]
    numbers = NumericColours("n", np.array([2.0, np.nan, 4.0]))
    looks, found = palette.row_palette(numbers, 3, dark=False)
    assert (found[0], found[2]) == (0, palette.LEVELS - 1)
    assert looks[found[1]][1] == "circle-open"
    assert palette.row_palette(None, 2, dark=True)[1].tolist() == [0, 0]
    assert palette.ramp_steps(["#000000", "#FFFFFF"], 3) == [[0, 0, 0], [128, 128, 128], [255] * 3]


def test_sampled_rows_of_a_map_with_likelihoods_have_levels_and_whole_counts() -> None:
    rng = np.random.default_rng(0)
    place = rng.standard_normal(60)
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(np.exp(0.5 + place)),
            "smoker": np.where(place > 0, "yes", "no"),
            "region": np.array(["east", "north", "west"])[np.digitize(place, [-0.5, 0.5])],
        }
    )
    dataset = Table.from_frame(frame, name="mixed").dataset(one_hot=["region"], label=None)
    model = BayesianGPLVM(
        n_components=1, n_inducing=6, max_iter=20, start="pca", column_likelihood="by column"
    ).fit(pd.DataFrame(dataset.X, columns=list(dataset.feature_names)))
    draw = GeneratedRows(50, 0, None, None, "the prior")
    found = generated_table(model, dataset, draw, "digest")
    assert list(found.columns) == ["visits", "smoker", "region", "drawn_from", "seed", "model"]
    assert set(found["smoker"]) == {"yes", "no"}
    assert set(found["region"]) <= {"east", "north", "west"}
    np.testing.assert_array_equal(found["visits"], found["visits"].round())
    row = reconstruct(model, dataset, (0.5,))
    assert [one.column.name for one in row.categories] == ["smoker", "region"]
    assert [dataset.feature_names[d] for d in row.numbers] == ["visits"]
    levels = cursor_charts.level_chart(row.categories, dark=False)
    assert levels["yAxis"]["data"][:2] == ["smoker: no", "smoker: yes"]
    shares = levels["series"][0]["data"]
    assert sum(shares[:2]) == pytest.approx(100, abs=0.2)
    assert sum(shares[2:]) == pytest.approx(100, abs=0.3)
