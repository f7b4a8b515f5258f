"""The check of an imputation on hidden cells: coverage, error and predictions."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from app.analysis.map.subsampling import evenly_spaced
from app.figures.interval_coverage import HiddenCellPredictions, coverage_figure
from app.figures.pictures import channel_note
from app.formatting import count, distinct_titles, markdown, number, shortened
from app.services import fitted_maps, imputation
from app.state.session import session
from app.state.widgets import widget_key
from app.views.impute.method_comparison import comparison_headline, comparison_table
from app.views.impute.picture_figures import picture_figure
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

__all__ = ["FIGURES", "check_verdict", "imputation_check"]

#: Most hidden cells of a column in the figure.
_MOST_DRAWN = 400
#: Most pictures with hidden pixels that are drawn.
_MOST_PICTURES = 8
_HIDDEN_CHANNELS = (
    "A pixel has the accent colour where one of its channels is hidden or missing: the cells of a "
    "picture are its channels."
)
#: The page warns if the error is above this share of the error of the column means.
_HARDLY_BETTER = 0.95
#: Titles of the metrics of the check; the keys of the column means end in "_means".
FIGURES = {
    "cells_coverage_50": "inside their 50 % interval",
    "cells_coverage_90": "inside their 90 % interval",
    "cells_coverage_95": "inside their 95 % interval",
    "impute_rmse": "error (RMSE), in sd",
    "cells_nlpd": "NLPD, in nats",
}
_AIMS = {
    "cells_coverage_50": "50 %",
    "cells_coverage_90": "90 %",
    "cells_coverage_95": "95 %",
    "impute_rmse": "low",
    "cells_nlpd": "low",
}
_WIDTHS = {
    "narrow": "The intervals are too narrow: the errors of imputed cells exceed their sd.",
    "wide": "The intervals are too wide: the errors of imputed cells are below their sd.",
}


def _key(job: Job, name: str) -> str:
    return widget_key("impute", job.id, name)


def check_verdict(job: Job) -> None:
    """Draw whether the imputed cells can be used: the error against the baselines, and warnings.

    Args:
        job: the finished imputation.
    """
    try:
        comparison = imputation.comparison(job.id)
    except LatentboardError:  # the check says so
        return
    if comparison is not None:
        comparison_headline(comparison)


def imputation_check(
    job: Job, gaps: imputation.MissingCellCounts, compare_again: Callable[[], None]
) -> None:
    """Draw the check of an imputation on hidden cells.

    Args:
        job: the finished imputation.
        gaps: the missing cells of its table.
        compare_again: draws the button that imputes again, for a run without the comparison.
    """
    st.header("Check on hidden cells")
    try:
        comparison = imputation.comparison(job.id)
    except LatentboardError as problem:
        st.error(markdown(problem))
        comparison = None
    try:
        cells = imputation.hidden_cells(job.id)
    except LatentboardError as problem:
        st.error(markdown(problem))
        return
    if not len(cells):
        st.info(
            "There was no observed cell to hide, so the error of the imputed cells is not known."
        )
        return
    drawn = cells[cells["has_interval"]] if "has_interval" in cells else cells  # earlier runs
    if len(drawn):
        noun = "hidden cell" if len(drawn) == len(cells) else "hidden number or count"
        _intervals(job, noun, len(drawn), with_error=comparison is None)
    else:
        st.markdown("The hidden cells are all levels of categories, which have no intervals.")
    if comparison is not None:
        comparison_table(job, comparison)
    else:
        st.info(
            "This imputation was checked before nearest neighbours and forests were part of the "
            "check, so it is compared with column means only. Impute again to compare it with them."
        )
        compare_again()
    figures, picture = st.columns([2, 3], gap="large")
    with figures:
        _metrics_table(job)
    if len(drawn):
        with picture:
            _predictions(job, drawn, gaps)
    _pictures(job)


def _pictures(job: Job) -> None:
    """Rows that are pictures, with their hidden pixels filled."""
    try:
        dataset = fitted_maps.stored_dataset(job.spec.dataset)
        found = imputation.hidden_pictures(job.id, _MOST_PICTURES)
    except LatentboardError as problem:
        st.error(markdown(problem))
        return
    if found is None or dataset.image_shape is None:
        return
    st.plotly_chart(
        picture_figure(found, dataset.image_shape, dark=session.is_dark),
        theme=None,
        key=_key(job, "pictures"),
        config={"displayModeBar": False},
        alt="Pictures with hidden pixels, and how they were filled",
    )
    colour = len(dataset.image_shape) > 2
    st.caption(
        f"The {count(len(found.names), 'picture')} with the most pixels hidden for the check. "
        "Hidden pixels are filled by the fit that did not see them, missing ones by the final fit."
        + (f" {_HIDDEN_CHANNELS} {channel_note(dataset.image_shape)}" if colour else "")
    )


def _intervals(job: Job, noun: str, cells: int, *, with_error: bool) -> None:
    """How many hidden cells their intervals contain, with warnings.

    Args:
        job: the finished imputation.
        noun: what the cells are, singular.
        cells: their number, at least 1.
        with_error: whether to give the error too.
    """
    from lvmcore.evaluation.hidden_cells import interval_width

    value = {key: metric.value for key, metric in job.metrics.items()}
    covered, error = value.get("cells_coverage_90"), value.get("impute_rmse")
    by_means = value.get("impute_rmse_means")
    plural = "hidden numbers and counts" if noun.startswith("hidden number") else None
    text = f"**90 % intervals contain {_share(covered)} of {count(cells, noun, plural)}**"
    if with_error:
        text += (
            f"; typical error **{number(error, 3)}** against **{number(by_means, 3)}** for column "
            "means, in sd of each column"
        )
    st.markdown(f"{text}.")
    found = "fair" if covered is None else interval_width(covered, 0.9, cells)
    if found != "fair":
        st.warning(_WIDTHS[found])
    if error is None or by_means is None or not with_error:
        return
    if error > _HARDLY_BETTER * by_means:
        st.warning(
            "Column means have about the same error: the columns are hardly related, or the model "
            "is too small."
        )


def _share(value: float | None) -> str:
    """A share of cells in per cent."""
    return "–" if value is None else f"{100 * value:.0f} %"


def _metrics_table(job: Job) -> None:
    """Coverage, error and density of the model and of the column means."""

    def texts(suffix: str) -> list[str]:
        values = {key: job.metrics[key + suffix].value for key in FIGURES}
        return [
            _share(value) if "coverage" in key else number(value, 3)
            for key, value in values.items()
        ]

    st.dataframe(
        pd.DataFrame(
            {
                "hidden cells": list(FIGURES.values()),
                "model": texts(""),
                "means": texts("_means"),
                "aim": list(_AIMS.values()),
            }
        ),
        hide_index=True,
        column_config={
            "hidden cells": st.column_config.TextColumn(width=178),
            "model": st.column_config.TextColumn(alignment="right", width=54),
            "means": st.column_config.TextColumn(
                alignment="right", width=58, help="Mean and sd of each column instead of a model"
            ),
            "aim": st.column_config.TextColumn(alignment="right", width=50),
        },
        key=_key(job, "figures"),
        alt="The check in numbers",
    )
    protocol = job.metrics["impute_rmse"].protocol
    st.caption(f"{markdown(protocol)} NLPD: {_density_text(job)}")


def _density_text(job: Job) -> str:
    """Which density the check has: the first sentence of its protocol."""
    first, end, _ = job.metrics["cells_nlpd"].protocol.partition(". ")
    return markdown(first[:1].lower() + first[1:] + end.strip())


def _predictions(job: Job, cells: pd.DataFrame, gaps: imputation.MissingCellCounts) -> None:
    """Predictions of the hidden cells of a column against their true values."""
    from lvmcore.jobs.impute import CHECK_LEVEL

    hidden = cells["feature"].value_counts(sort=False)
    names = [str(name) for name in hidden.index]
    titles = distinct_titles(f"{shortened(name, 50)} ({hidden[name]} hidden)" for name in names)
    most = max(range(len(names)), key=lambda i: gaps.missing.get(names[i], 0))
    position = st.selectbox(
        "Column",
        range(len(names)),
        index=most,
        format_func=titles.__getitem__,
        key=_key(job, "column"),
        help="The column whose hidden cells are compared with their predictions.",
    )
    of_column = cells[cells["feature"] == names[position]]
    drawn = of_column.iloc[evenly_spaced(len(of_column), _MOST_DRAWN)]
    st.plotly_chart(
        coverage_figure(
            HiddenCellPredictions(
                drawn["row_id"].tolist(),
                *(drawn[part].to_numpy() for part in ("truth", "mean", "lower", "upper")),
            ),
            names[position],
            CHECK_LEVEL,
            dark=session.is_dark,
        ),
        theme=None,
        key=_key(job, "hidden"),
        config={"displayModeBar": False},
        alt="Predictions of hidden cells over their true values",
    )
    caption = "Bars: 90 % intervals. On the dotted line the prediction is exact."
    if len(drawn) < len(of_column):
        caption += f" {len(drawn)} of {count(len(of_column), 'cell')} are drawn, evenly spaced."
    st.caption(caption)
