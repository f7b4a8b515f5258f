"""What a figure of a paper draws of the fits that are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st

from app.analysis.comparison.map_alignment import align_maps
from app.analysis.map import subsampling
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.row_colours import Colouring, group_of_rows
from app.analysis.papers.catalogue import Drawing, FigureFit, PaperFigure
from app.analysis.tables.prediction_curves import PredictionCurve
from app.components.learning_curves import learning_curve_chart
from app.components.map.map_chart import map_style
from app.components.map.map_options import label_colour
from app.components.map.row_texts import hover
from app.components.map.small_maps import PER_LINE, SmallMap, small_maps
from app.components.small_figures import SmallFigure, small_figures
from app.figures import legend, row_traces
from app.figures.prediction_curve import curve_figure
from app.figures.training_curve import training_curve_figure
from app.formatting import count, markdown, number
from app.services import fitted_maps, imputation, prediction, progress
from app.services import scores as score_services
from app.state.session import session
from app.state.widgets import widget_key
from app.views.papers.fit_recipes import recipe_dataset
from app.views.papers.matrix_figures import kernel_matrix_figure
from app.views.papers.picture_figures import picture_columns_figure
from app.views.papers.plane_figures import class_plane_figure
from app.views.papers.score_figures import score_dots_figure
from lvmcore.data import samples
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

__all__ = ["draw_figure"]

Fits = Sequence[tuple[FigureFit, Job]]

_key = partial(widget_key, "papers", "figure")
#: Figures in a line, height of each in pixels, and most rows drawn on each.
_PER_LINE, _HEIGHT, _MOST_ROWS = 3, 210, 500
#: Most rows and columns of a matrix that is drawn.
_MOST_MATRIX_ROWS = 150
_PICTURES, _PICTURES_PER_LINE = 5, 4


def draw_figure(figure: PaperFigure, done: Fits) -> None:
    """Draw a figure, each of its datasets by itself; datasets with one map are beside each other.

    Args:
        figure: the figure.
        done: its fits that have a model, with their runs.
    """
    names = list(dict.fromkeys(one.fit.data for one, _ in done))
    single = _has_single_maps(figure)
    places = st.columns(max(_PER_LINE, len(names))) if single else [st.container() for _ in names]
    for name, place in zip(names, places, strict=False):
        same = [(one, job) for one, job in done if one.fit.data == name]
        with place:
            try:
                _DRAWINGS[figure.drawing](figure, same)
            except LatentboardError as error:
                st.error(markdown(error))


def _has_single_maps(figure: PaperFigure) -> bool:
    """Whether a figure has one map of each of several datasets."""
    data = [one.fit.data for one in figure.fits]
    return figure.drawing == "maps" and len(data) > 1 and len(set(data)) == len(data)


def _maps(figure: PaperFigure, fits: Fits) -> None:
    """The maps of one dataset, aligned to the last, which is the paper's own model."""
    full_dataset = fitted_maps.stored_dataset(fits[0][1].spec.dataset)
    loaded = [
        FittedMap(job.id, fitted_maps.model(job.id), fitted_maps.fitted_dataset(job.id))
        for _, job in reversed(fits)
    ]
    aligned = {one.fitted_map.run: one for one in align_maps(loaded, full_dataset)}
    label = full_dataset.label_name
    colour = label_colour(full_dataset, label) if label else None
    colouring = map_style(fits[-1][1].id, full_dataset, colour)
    st.html(legend.legend_html(colouring, dark=session.is_dark) or "<span></span>")
    small_maps(
        [
            SmallMap(
                key=_key("map", job.id),
                name=one.title,
                caption=f"{count(len(aligned[job.id].row_positions), 'row')} of "
                f"{markdown(full_dataset.name)}",
                alt=f"Map of {one.title} on {full_dataset.name}",
                row_positions=aligned[job.id].row_positions,
                points=aligned[job.id].points,
                equal=aligned[job.id].axes[1] is not None,
            )
            for one, job in fits
        ],
        full_dataset,
        colouring,
        per_line=1 if _has_single_maps(figure) else PER_LINE,
    )


def _curves(figure: PaperFigure, fits: Fits) -> None:
    """A number over its only column, with bands on one scale."""
    del figure
    found = []
    for one, job in fits:
        rows = prediction.training_rows(job.id)
        curve = prediction.column_curve(job.id, str(rows.X.columns[0]))
        found.append((one, job, rows, curve))
    low, high = _vertical_range([curve for *_, curve in found])
    drawings = []
    for one, job, rows, curve in found:
        drawn = subsampling.evenly_spaced(len(rows.y), _MOST_ROWS)
        x, y = rows.X.iloc[:, 0].to_numpy(), np.asarray(rows.y, dtype=np.float64)
        points = (x[drawn], y[drawn], rows.held_out[drawn])
        chart = curve_figure(
            curve, job.spec.target, dark=session.is_dark, height=_HEIGHT, points=points
        )
        chart.update_layout(
            showlegend=False,
            margin={"t": 6},
            xaxis={"title": None},
            yaxis={"title": None, "range": [low, high]},
        )
        chart.update_traces(marker_size=3, selector={"mode": "markers"})
        text = f"mean absolute error {_metric(job, 'mae')}"
        alt = f"Prediction of {one.title} with a 90 % band"
        drawings.append(SmallFigure(_key("curve", job.id), one.title, text, alt, chart))
    data = fits[0][0].fit.data
    title = samples()[data].title if data in samples() else data
    st.markdown(f"**{markdown(title)}**")
    small_figures(drawings, per_line=_PER_LINE)
    st.caption(
        "Line: predicted mean. Band: 90 %, with the noise of a row. Dots are rows of the fit, "
        "rings held-out rows, whose errors are measured against their noisy values."
    )


def _vertical_range(curves: Sequence[PredictionCurve]) -> tuple[float, float]:
    """Range of the vertical axis that holds all bands."""
    low = min(float(curve.lower.min()) for curve in curves)
    high = max(float(curve.upper.max()) for curve in curves)
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def _planes(figure: PaperFigure, fits: Fits) -> None:
    """Class probabilities over two columns."""
    del figure
    dataset = fitted_maps.stored_dataset(fits[0][1].spec.dataset)
    first = fits[0][1]
    colouring = map_style(first.id, dataset, label_colour(dataset, first.spec.target))
    st.html(legend.legend_html(colouring, dark=session.is_dark) or "<span></span>")
    small_figures((_plane(one, job, colouring) for one, job in fits), per_line=_PER_LINE)
    st.caption(
        "The colours of the classes are mixed by their predicted probabilities. Points are rows of "
        "the fit; the accuracy is that of held-out rows."
    )


def _plane(one: FigureFit, job: Job, colouring: Colouring) -> SmallFigure:
    """Class probabilities of one fit, with its rows."""
    dataset, rows = fitted_maps.stored_dataset(job.spec.dataset), prediction.training_rows(job.id)
    across, upright = (str(name) for name in rows.X.columns[:2])
    fitted = np.flatnonzero(~rows.held_out)
    drawn = fitted[subsampling.evenly_spaced(len(fitted), _MOST_ROWS)]
    positions = np.searchsorted(dataset.rows, rows.dataset.rows[drawn])
    points = row_traces.MapRows(
        points=rows.X[[across, upright]].to_numpy()[drawn],
        number=drawn,
        hover=hover(dataset, colouring, positions),
        colouring=group_of_rows(colouring, positions),
    )
    plane = prediction.class_plane(job.id, across, upright)
    chart = class_plane_figure(plane, points, dark=session.is_dark, height=_HEIGHT)
    chart.update_layout(xaxis={"title": None}, yaxis={"title": None})
    text = f"accuracy {_metric(job, 'accuracy')}"
    alt = f"Class probabilities by {one.title} over two columns"
    return SmallFigure(_key("plane", job.id), one.title, text, alt, chart)


def _scores(figure: PaperFigure, fits: Fits) -> None:
    """A score of held-out rows, of fits that differ in their seed on one line."""
    scores: dict[str, list[float]] = {}
    measured = None
    for one, job in fits:
        metric = job.metrics.get(figure.score)
        if metric is not None and metric.value is not None:
            scores.setdefault(one.group or one.title, []).append(metric.value)
            measured = metric
    if measured is None:
        st.caption("The scores are being measured.")
        return
    st.plotly_chart(
        score_dots_figure(scores, measured.label, dark=session.is_dark),
        theme=None,
        key=_key("scores", fits[0][0].fit.data),
        config={"displayModeBar": False},
        alt=f"{measured.label} of each model on held-out rows",
    )
    st.caption(
        "Rings are fits, each with a seed and held-out rows of its own; dots and lines are their "
        f"mean and sd. {markdown(measured.protocol.partition('. ')[0])}."
    )


def _learning_curves(figure: PaperFigure, fits: Fits) -> None:
    """Scores of held-out rows over the number of rows of the fit."""
    curves = {one.title: score_services.learning_curve(job.id) for one, job in fits}
    learning_curve_chart(curves, key=partial(_key, fits[0][0].fit.data), first=figure.score)


def _pictures(figure: PaperFigure, fits: Fits) -> None:
    """Pictures with hidden pixels, and how the model reconstructs them."""
    del figure
    drawings = []
    for one, job in fits:
        truth = recipe_dataset(replace(one.fit, hidden=0.0))
        if truth.image_shape is None:
            continue
        found = imputation.reconstructed_pictures(job.id, truth, _PICTURES)
        chart = picture_columns_figure(found, truth.image_shape, dark=session.is_dark)
        alt = f"Pictures reconstructed by {one.title}"
        drawings.append(SmallFigure(_key("pictures", job.id), one.title, "", alt, chart))
    small_figures(drawings, per_line=_PICTURES_PER_LINE)
    st.caption(
        "Hidden pixels have the accent colour. A reconstruction is the mean of all pixels at the "
        f"posterior mean of the row's latent position. {_PICTURES} rows, evenly spaced."
    )


def _kernels(figure: PaperFigure, fits: Fits) -> None:
    """The true kernel matrix of a simulated sample, and those that its fits learned."""
    del figure
    data = fits[0][0].fit.data
    found = [(one, job, fitted_maps.kernel_recovery(job.id, data)) for one, job in fits]
    low = min(float(part.min()) for *_, one in found for part in (one.true, one.found))
    true = found[0][2].true
    drawn = subsampling.evenly_spaced(len(true), _MOST_MATRIX_ROWS)
    titles = [("true kernel", "", true, "true")]
    titles += [
        (one.title, f"relative error {number(part.error, 3)}", part.found, job.id)
        for one, job, part in found
    ]
    st.markdown(f"**{markdown(samples()[data].title)}**")
    small_figures(
        (
            SmallFigure(
                _key("kernel", data, key),
                title,
                text,
                f"Correlations between the rows by the {title}",
                kernel_matrix_figure(
                    matrix[np.ix_(drawn, drawn)],
                    drawn + 1,
                    (low, 1.0),
                    dark=session.is_dark,
                    height=_HEIGHT,
                ),
            )
            for title, text, matrix, key in titles
        ),
        per_line=_PER_LINE,
    )
    st.caption(
        f"Correlations between {count(len(drawn), 'row')} in their order along the curve, the "
        "learned ones at the posterior means. The error is that of the centred matrices with the "
        "best scale, over all rows."
    )


def _bounds(figure: PaperFigure, fits: Fits) -> None:
    """The bound over the steps of each fit."""
    del figure
    curves = {}
    for one, job in fits:
        steps = progress.progress(job.id).steps
        curves[one.title] = (
            np.array([step.iteration for step in steps], dtype=np.float64),
            np.array([step.objective for step in steps], dtype=np.float64),
        )
    st.plotly_chart(
        training_curve_figure(curves, "bound (ELBO), nats", dark=session.is_dark),
        theme=None,
        key=_key("bounds", fits[0][0].fit.data),
        config={"displayModeBar": False},
        alt="Bound over the steps of each fit",
    )


def _metric(job: Job, key: str) -> str:
    """A metric of the held-out rows as a text."""
    metric = job.metrics.get(key)
    return "is being measured" if metric is None else number(metric.value, 3)


_DRAWINGS: Mapping[Drawing, Callable[[PaperFigure, Fits], None]] = {
    "maps": _maps,
    "curves": _curves,
    "planes": _planes,
    "scores": _scores,
    "learning curves": _learning_curves,
    "pictures": _pictures,
    "kernels": _kernels,
    "bounds": _bounds,
}
