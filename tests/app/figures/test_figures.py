"""The plotly figures: what they hold, their look in both modes, and that user text stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

import app
from app.analysis.map import subsampling
from app.analysis.map.heatmaps import Heatmap
from app.analysis.map.reconstruction import DecodedLevels, Reconstruction
from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle, NumericColours
from app.figures import canvas_scene, latent_map, legend, row_panels, row_traces, theme
from app.figures.theme import category, heatmap_colours
from lvmcore.data import DateScale
from lvmcore.export.column_colours import CategoryColours
from lvmcore.prediction.decoded_columns import DecodedCategory

N = 12
NASTY = "<a href='http://x'>b & c</a>"
ESCAPED = "&lt;a href='http://x'&gt;b &amp; c&lt;/a&gt;"


def rows(n: int = N, **changes: object) -> row_traces.MapRows:
    rng = np.random.default_rng(3)
    given: dict[str, object] = {
        "points": rng.standard_normal((n, 2)),
        "number": np.arange(n),
        "hover": [[f"row {i}", NASTY] for i in range(n)],
    }
    return row_traces.MapRows(**(given | changes))  # type: ignore[arg-type]


def grid(*, low_is_certain: bool = True, limits: tuple[float, float] | None = None) -> Heatmap:
    x, y = np.linspace(-3, 3, 20), np.linspace(-4, 4, 20)
    return Heatmap(x, y, np.add.outer(y**2, x**2), NASTY, "sd", limits, low_is_certain)


def named(figure: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.name == name]


def lightness(colour: str) -> float:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * r + 0.587 * g + 0.114 * b


# ---- the look --------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True])
def test_the_first_eight_categories_differ_in_colour_and_the_next_in_shape(dark: bool) -> None:
    looks = [category(code, dark) for code in range(16)]
    assert len({colour for colour, _ in looks[:8]}) == 8
    assert {shape for _, shape in looks[:8]} == {"circle"}
    assert len(set(looks)) == 16
    assert looks[0][0] == "#0072B2"
    assert looks[7][0] == ("#FFFFFF" if dark else "#000000")


@pytest.mark.parametrize("dark", [False, True])
def test_light_means_sure_and_dark_means_unsure(dark: bool) -> None:
    doubt = [lightness(colour) for colour in heatmap_colours(low_is_certain=True, dark=dark)]
    assert doubt == sorted(doubt, reverse=True)
    assert (
        heatmap_colours(low_is_certain=False, dark=dark)
        == heatmap_colours(low_is_certain=True, dark=dark)[::-1]
    )


def test_on_a_dark_page_the_unsure_end_is_as_dark_as_the_page() -> None:
    unsure = heatmap_colours(low_is_certain=True, dark=True)[-1]
    assert abs(lightness(unsure) - lightness(theme.page_colours(True).page)) < 20


@pytest.mark.parametrize("dark", [False, True])
def test_the_template_has_our_fonts_and_no_grid(dark: bool) -> None:
    layout = theme.template(dark).layout
    assert layout.font.family.startswith("Inter")
    assert layout.xaxis.showgrid is False
    assert layout.yaxis.zeroline is False
    assert layout.plot_bgcolor == ("#171C21" if dark else "#FFFFFF")


def test_escape_takes_the_meaning_from_tags_and_entities() -> None:
    assert theme.escape(NASTY) == ESCAPED


# ---- the map ---------------------------------------------------------------------------------


def test_axes_are_named_and_cover_the_heatmap() -> None:
    figure = latent_map.map_figure(rows(), (2, 0), dark=False, grid=grid())
    assert figure.layout.xaxis.title.text == "latent dimension 3"
    assert figure.layout.yaxis.title.text == "latent dimension 1"
    assert figure.layout.xaxis.range == (-3, 3)
    assert figure.layout.yaxis.range == (-4, 4)


def test_a_map_of_one_dimension_has_the_rows_number_upright() -> None:
    figure = latent_map.map_figure(rows(), (0, None), dark=False)
    assert figure.layout.yaxis.title.text == "row"


def test_the_heatmap_is_beneath_everything_with_a_named_bar_and_its_limits() -> None:
    figure = latent_map.map_figure(rows(), (0, 1), dark=True, grid=grid(limits=(0.0, 40.0)))
    heat = figure.data[0]
    assert heat.type == "heatmap"
    assert (heat.zmin, heat.zmax) == (0.0, 40.0)
    assert heat.colorbar.title.text == f"{ESCAPED} (sd)"
    np.testing.assert_array_equal(heat.z, grid().value)
    assert [pair[1] for pair in heat.colorscale] == heatmap_colours(low_is_certain=True, dark=True)


def test_categories_have_a_trace_each_and_the_rest_is_grey() -> None:
    codes = np.array([0, 1, 1, MISSING, OTHER, 0, 0, 1, OTHER, MISSING, 0, 0])
    look = CategoryStyle("kind", ("a", NASTY), codes, others=4)
    figure = latent_map.map_figure(rows(colouring=look), (0, 1), dark=False)
    assert len(named(figure, "a")[0].x) == 5
    assert named(figure, ESCAPED)[0].marker.color == category(1, False)[0]
    (other,) = named(figure, "other (4 more)")
    assert other.marker.color == theme.page_colours(False).muted
    (missing,) = named(figure, "(missing)")
    assert missing.marker.symbol == "circle-open"
    drawn = [text for trace in figure.data if trace.showlegend for text in trace.hovertext]
    assert len(set(drawn)) == len(drawn) == N


def test_the_first_category_of_a_chosen_order_is_the_last_trace() -> None:
    codes = np.array([0, 1, 1, MISSING, OTHER, 0, 0, 1, OTHER, MISSING, 0, 0])
    look = CategoryStyle("kind", ("a", "b"), codes, 4, CategoryColours(order=("b", "a")))
    for selected in (None, np.arange(N) < 6):
        given = rows(colouring=look, selected=selected)
        figure = latent_map.map_figure(given, (0, 1), dark=False)
        listed = [trace for trace in figure.data if trace.showlegend]
        assert [trace.name for trace in listed] == ["(missing)", "other (4 more)", "a", "b"]
        ranked = sorted(listed, key=lambda trace: trace.legendrank)
        assert [trace.name for trace in ranked] == ["b", "a", "other (4 more)", "(missing)"]
    said = legend.legend_html(look, dark=False)
    assert re.findall(r"[ab](?=</span>|\s*</)", said)[:2] == ["b", "a"]


def test_numbers_have_a_ramp_with_a_named_bar_and_hollow_missing_rows() -> None:
    values = np.arange(float(N))
    values[4] = np.nan
    figure = latent_map.map_figure(
        rows(colouring=NumericColours(NASTY, values)), (0, 1), dark=False
    )
    (shown,) = named(figure, "rows")
    assert (shown.marker.cmin, shown.marker.cmax) == (0.0, 1.0)
    assert shown.marker.colorbar.tickvals == (0.0, 0.5, 1.0)
    assert shown.marker.colorbar.ticktext == ("0.00", "5.50", "11.0")
    assert shown.marker.colorbar.title.text == ESCAPED
    np.testing.assert_allclose(shown.marker.color, np.delete(values, 4) / 11)
    assert named(figure, "(missing)")[0].hovertext == (f"<b>row 4</b><br>{ESCAPED}",)


def test_hover_text_is_escaped() -> None:
    figure = latent_map.map_figure(rows(), (0, 1), dark=False)
    assert named(figure, "rows")[0].hovertext[2] == f"<b>row 2</b><br>{ESCAPED}"


def test_no_tag_of_the_user_reaches_the_figure() -> None:
    look = CategoryStyle(NASTY, (NASTY,), np.zeros(N, dtype=np.intp))
    figure = latent_map.map_figure(
        rows(colouring=look),
        (0, 1),
        dark=False,
        grid=grid(),
        inducing={NASTY: np.zeros((3, 2))},
    )
    texts = [
        text
        for trace in json.loads(figure.to_json())["data"]
        for key in ("name", "hovertext", "hovertemplate")
        for text in np.atleast_1d(trace.get(key) or "")
    ]
    assert any("&lt;a" in text for text in texts)
    assert not any("<a" in text for text in texts)


def test_ellipses_are_one_line_with_a_gap_after_each_at_the_stated_number_of_sds() -> None:
    sd = np.tile([0.1, 0.5], (N, 1))
    drawn = rows(sd=sd)
    (line,) = named(latent_map.map_figure(drawn, (0, 1), dark=False), "ellipses")
    gaps = np.flatnonzero(np.isnan(line.x))
    assert len(gaps) == N
    first = np.column_stack([line.x, line.y])[: gaps[0]]
    reach = (first - drawn.points[0]) / sd[0]
    np.testing.assert_allclose(np.hypot(*reach.T), canvas_scene.ELLIPSE_SD)


def test_inducing_inputs_of_each_path_have_their_own_mark() -> None:
    inducing = {"data": np.zeros((4, 2)), "labels": np.ones((5, 2))}
    figure = latent_map.map_figure(rows(), (0, 1), dark=False, inducing=inducing)
    data, labels = figure.data[-2:]
    assert (len(data.x), len(labels.x)) == (4, 5)
    assert data.marker.symbol != labels.marker.symbol
    assert data.name == "inducing inputs, data path"


def test_no_figure_is_drawn_with_webgl() -> None:
    """For WebGL, plotly generates code at run time, which the pages and the report forbid."""
    many = latent_map.map_figure(rows(5000), (0, 1), dark=False)
    assert {trace.type for trace in many.data} == {"scatter"}
    webgl = re.compile(
        r"go\.(\w*gl|\w*3d|Surface|Volume|Isosurface|Cone|Streamtube|Parcoords|Splom)"
    )
    package = Path(app.__file__).parent
    assert [path for path in package.rglob("*.py") if webgl.search(path.read_text("utf-8"))] == []


def test_rows_outside_the_selection_are_faint_and_the_legend_names_each_group_once() -> None:
    selected = np.arange(N) < 4
    codes = np.repeat([0, 1, 2], 4)
    look = CategoryStyle("kind", ("a", "b", "c"), codes)
    drawn = rows(colouring=look, selected=selected, hover=[[str(i)] for i in range(N)])
    figure = latent_map.map_figure(drawn, (0, 1), dark=False)
    for trace in figure.data:
        inside = [selected[int(text[3:-4])] for text in trace.hovertext]
        assert len(set(inside)) <= 1
        if inside:
            assert (trace.marker.opacity > 0.5) == inside[0]
    listed = [trace.name for trace in figure.data if trace.showlegend and len(trace.x)]
    assert sorted(listed) == ["a", "b", "c"]


@pytest.mark.parametrize(("n", "most"), [(5, 10), (10, 10), (11, 10), (1000, 7), (1, 1)])
def test_an_even_subsample_starts_at_the_first_row_and_keeps_its_limit(n: int, most: int) -> None:
    kept = subsampling.evenly_spaced(n, most)
    assert kept[0] == 0
    assert len(kept) <= most
    assert len(set(np.diff(kept))) <= 1
    assert n > most or len(kept) == n


# ---- beside the map --------------------------------------------------------------------------


def test_relevance_bars_are_shares_in_per_cent_with_those_on_the_map_full() -> None:
    share = {"data": np.array([0.5, 0.3, 0.2]), "labels": np.array([0.1, 0.0, 0.9])}
    figure = row_panels.relevance_figure(share, (2, 0), dark=False)
    data, labels = figure.data
    np.testing.assert_allclose(data.y, [50, 30, 20])
    np.testing.assert_array_equal(labels.x, [1, 2, 3])
    assert labels.customdata == ([0], [1], [2])
    np.testing.assert_array_equal(data.marker.opacity == 1.0, [True, False, True])
    assert data.marker.color != labels.marker.color


def decoded(d: int) -> Reconstruction:
    mean, sd = np.arange(d) + 10.0, np.full(d, 0.5)
    return Reconstruction(
        mean=mean,
        sd=sd,
        lower=mean - 2 * sd,
        upper=mean + 2 * sd,
        value=mean,
        low=mean - 2 * sd,
        high=mean + 2 * sd,
        log1p=np.zeros(d, dtype=bool),
        centre=np.full(d, 8.0),
        scale=np.full(d, 2.0),
        varies=np.ones(d, dtype=bool),
        dates=np.full(d, None),
        probability=None,
    )


def test_decoded_dates_are_dates_in_the_hover_texts() -> None:
    dated = replace(decoded(2), dates=np.array([DateScale("month", "1920-01"), None]))
    figure = row_panels.reconstruction_figure(("when", "b"), dated, None, dark=False)
    assert figure.data[0].hovertext[0] == "<b>when</b><br>reconstruction 1920-11 ± 1.0 months"
    assert figure.data[0].hovertext[1] == "<b>b</b><br>reconstruction 11.00 ± 1.0"


def test_columns_are_placed_in_their_own_sds_and_named_in_their_own_units() -> None:
    observed = np.array([9.0, np.nan, 12.0])
    names = ("a", NASTY, "c")
    figure = row_panels.reconstruction_figure(names, decoded(3), observed, dark=False)
    shown, seen = figure.data
    np.testing.assert_allclose(shown.x, [1.0, 1.5, 2.0])
    np.testing.assert_allclose(shown.error_x.array, 0.5)
    np.testing.assert_allclose(seen.x, [0.5, np.nan, 2.0])
    assert shown.hovertext[0] == "<b>a</b><br>reconstruction 10.00 ± 1.0<br>observed 9.000"
    assert "observed missing" in shown.hovertext[1]
    assert ESCAPED in shown.hovertext[1]
    assert figure.layout.yaxis.ticktext[1].startswith("&lt;a")


def with_logarithms(d: int) -> Reconstruction:
    """As above, the first column learned as log(1 + x): mean log(10), sd ½."""
    plain, log1p = decoded(d), np.arange(d) == 0
    mean = np.where(log1p, np.log(10.0), plain.mean)
    value = np.where(log1p, 9.0, mean)
    low = np.where(log1p, 10 / np.e - 1, plain.low)
    high = np.where(log1p, 10 * np.e - 1, plain.high)
    return replace(
        plain,
        mean=mean,
        lower=mean - 2 * plain.sd,
        upper=mean + 2 * plain.sd,
        value=value,
        low=low,
        high=high,
        log1p=log1p,
    )


def test_a_column_learned_as_log1p_is_placed_so_and_named_in_its_own_unit() -> None:
    r = with_logarithms(2)
    figure = row_panels.reconstruction_figure(("a", "b"), r, np.array([99.0, 12.0]), dark=False)
    shown, seen = figure.data
    np.testing.assert_allclose(shown.x, [(np.log(10) - 8) / 2, 1.5])
    np.testing.assert_allclose(shown.error_x.array, 0.5)
    np.testing.assert_allclose(seen.x, [(np.log(100) - 8) / 2, 2.0])
    assert shown.hovertext[0] == (
        "<b>a</b><br>reconstruction 9.000 (median), 2 sd interval 2.679 to 26.18<br>observed 99.00"
    )
    assert shown.hovertext[1] == "<b>b</b><br>reconstruction 11.00 ± 1.0<br>observed 12.00"


def test_a_count_has_the_interval_of_its_likelihood() -> None:
    r = replace(decoded(2), lower=np.array([9.0, 7.0]), low=np.array([9.0, 7.0]))
    r = replace(r, upper=np.array([11.0, 16.0]), high=np.array([11.0, 16.0]))
    shown, _ = row_panels.reconstruction_figure(
        ("a", "b"), r, np.array([9.0, 12.0]), dark=False
    ).data
    np.testing.assert_allclose(shown.error_x.array, [0.5, 2.5])
    np.testing.assert_allclose(shown.error_x.arrayminus, [0.5, 2.0])
    assert shown.hovertext[1].startswith("<b>b</b><br>reconstruction 11.00, 95 % interval 7.000")


def test_the_levels_of_categories_are_bars_with_the_observed_level_marked() -> None:
    smoker = DecodedCategory("smoker", (0,), ("no", "yes"), (0.0, 1.0))
    region = DecodedCategory(NASTY, (1, 2, 3), ("east", "north", "south"))
    levels = [
        DecodedLevels(smoker, np.array([0.9, 0.1])),
        DecodedLevels(region, np.array([0.2, 0.3, 0.5])),
    ]
    observed = np.array([np.nan, 0.0, 1.0, 0.0])
    bars, seen = row_panels.levels_figure(levels, observed, dark=False).data
    np.testing.assert_allclose(bars.x, [90, 10, 20, 30, 50])
    assert bars.text[0] == "90%"
    np.testing.assert_array_equal(seen.y, [4])
    assert len(row_panels.levels_figure(levels, None, dark=True).data) == 1
    assert ESCAPED[:6] in row_panels.levels_figure(levels, None, dark=True).data[0].hovertext[2]


def test_an_image_learned_as_log1p_shows_how_wide_the_intervals_are() -> None:
    r = with_logarithms(6)
    figure = row_panels.image_figure((2, 3), r, None, (0.0, 16.0), dark=False)
    assert [trace.name for trace in figure.data] == ["reconstruction", "interval width"]
    np.testing.assert_array_equal(figure.data[0].z, r.value.reshape(2, 3))
    np.testing.assert_allclose(figure.data[1].z.ravel()[:2], [10 * np.e - 10 / np.e, 2.0])


def test_open_ground_has_no_observed_row() -> None:
    figure = row_panels.reconstruction_figure(("a", "b"), decoded(2), None, dark=True)
    assert [trace.name for trace in figure.data] == ["reconstruction ± 2 sd"]


def test_many_columns_are_a_profile_of_limited_height() -> None:
    names = [f"c{i}" for i in range(500)]
    figure = row_panels.reconstruction_figure(names, decoded(500), None, dark=False)
    np.testing.assert_allclose(figure.data[0].y[:2], [1.0, 1.5])
    assert figure.layout.height < 400


def test_an_image_is_shown_observed_decoded_and_with_its_sd() -> None:
    observed = np.arange(6.0)
    figure = row_panels.image_figure((2, 3), decoded(6), observed, (0.0, 16.0), dark=False)
    assert [trace.name for trace in figure.data] == ["observed", "reconstruction", "sd"]
    np.testing.assert_array_equal(figure.data[0].z, observed.reshape(2, 3))
    assert [(trace.zmin, trace.zmax) for trace in figure.data[:2]] == [(0.0, 16.0)] * 2
    assert [trace.showscale for trace in figure.data] == [False, False, True]
    without = row_panels.image_figure((2, 3), decoded(6), None, (0.0, 16.0), dark=False)
    assert [trace.name for trace in without.data] == ["reconstruction", "sd"]
