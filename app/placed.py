"""Rows that were placed: on the map, in a table, as files, and how they agree with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from app import chart, downloads, figures, services, state
from app.axes import Axes, positions
from app.colouring import OTHER, part_of
from app.opened import Opened
from app.words import count, markdown, number, shortened, told_apart
from lvmcore.errors import LatentboardError
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job
from lvmcore.runs.labels import figure_key

__all__ = ["show"]

FloatArray = NDArray[np.float64]

#: Rows of the table that the page shows; the files hold all.
_MOST_SHOWN = 1000
#: With a larger share of unusual rows the table itself is in doubt.
_MOST_UNUSUAL = 0.5
_CLASS, _UNUSUAL, _LABEL, _ONE = "predicted class", "how unusual", "own label", "one colour"
_ALL, _FLAGGED, _UNDECIDED, _WRONG = "all", "unusual", "not decided", "other than the label"
_CONFIG = {"scrollZoom": False, "modeBarButtonsToRemove": ["autoScale2d"]}


@dataclass(frozen=True)
class _Placed:
    """Placed rows, and which of them stand out.

    Attributes:
        id: of what placed them.
        frame: one row each.
        mean: latent means, [n, Q].
        sd: latent sds, [n, Q]; None from a model without.
        flagged: which are unusual, [n].
        undecided: which are not sure enough of their class, [n].
        wrong: whose own label is another than the predicted one, [n].
        label: the label column that all this is about, where there are several; None for the only
            one.
        least: probability from which on a row is decided.
    """

    id: str
    frame: pd.DataFrame
    mean: FloatArray
    sd: FloatArray | None
    flagged: NDArray[np.bool_]
    undecided: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    label: str | None
    least: float

    def key(self, name: str) -> str:
        return state.widget("new_rows", self.id, name)


def show(opened: Opened, job: Job) -> None:
    """Draw the placed rows.

    Args:
        opened: the run whose map they are on.
        job: what placed them, done.
    """
    try:
        frame = services.placed(job.id)
        notes = services.stored_dataset(job.spec.dataset).notes
    except LatentboardError as error:
        st.error(markdown(error))
        return
    fit = services.job(opened.run)
    if fit is not None and fit.ended is not None and job.submitted < fit.ended:
        st.warning(
            "The run went on after these rows were placed, and its map has changed. Upload the "
            "table again to place them anew."
        )
    title, back = st.columns([4, 1], vertical_alignment="bottom")
    title.header(markdown(job.spec.dataset_name))
    if state.new_table() is not None:
        back.button(
            "Back to the columns",
            key=state.widget("new_rows", job.id, "back"),
            on_click=state.set_placing,
            args=(opened.run, None),
            width="stretch",
            help="Shows again how the table's columns match those of the fit.",
        )
    label, frame = _about_one(job, frame)
    axes, colour, least, ellipses = _controls(opened, job, frame)
    placed = _placed(opened, job, frame, label, least)
    st.markdown(_facts(placed, job, opened))
    if placed.flagged.mean() > _MOST_UNUSUAL:
        st.warning(
            "Most of these rows are unlike those of the fit. The notes below say which columns are "
            "missing or may be in other units."
        )
    st.plotly_chart(
        figures.placed_figure(
            _rows_of_fit(opened, axes, colour, label),
            _layer(opened, placed, axes, colour, ellipses=ellipses),
            axes,
            dark=state.dark(),
        ),
        theme=None,
        key=placed.key("map"),
        config=_CONFIG,
        alt="Map of the fit with the new rows",
    )
    st.caption(_caption(opened, placed, ellipses=ellipses))
    _table(placed)
    _figures_and_notes(job, (*notes, *job.notes))


# ---- controls --------------------------------------------------------------------------------


def _about_one(job: Job, frame: pd.DataFrame) -> tuple[str | None, pd.DataFrame]:
    """Ask which label column to look at, where the model knows several, and look at it alone."""
    from lvmcore.runs.placing import labels_of, of_label

    names = labels_of(frame)
    if len(names) < 2:
        return None, frame
    titles = told_apart(shortened(name) for name in names)
    place = st.segmented_control(
        "Label",
        range(len(names)),
        default=0,
        required=True,
        format_func=lambda i: markdown(titles[i]),
        key=state.widget("new_rows", job.id, "label"),
        help="Which label the colours, the table and the counts are about. The files hold all.",
    )
    return names[place], of_label(frame, names[place])


def _controls(opened: Opened, job: Job, frame: pd.DataFrame) -> tuple[Axes, str, float, bool]:
    """Axes, colour, the probability from which on a row is decided, and whether ellipses are on."""
    key = partial(state.widget, "new_rows", job.id)
    across, up, hue, cut, rings = st.columns([1, 1, 1.6, 2, 1.2], vertical_alignment="bottom")
    axes = leading_dimensions(opened.model.relevance_)
    if axes[1] is not None:
        axes = (
            _dimension(across, "Horizontal", opened, axes[0], key("x")),
            _dimension(up, "Vertical", opened, axes[1], key("y")),
        )
    has_classes = "predicted" in frame
    options = [
        *([_CLASS] if has_classes else []),
        *([_UNUSUAL] if "unusual" in frame else []),
        *([_LABEL] if "label" in frame and services.classes(opened.run) is not None else []),
        _ONE,
    ]
    colour = hue.selectbox("Colour", options, key=key("colour"), help="What colours the new rows.")
    least = 0.0
    if has_classes:
        least = cut.slider(
            "Not decided below",
            0.0,
            1.0,
            0.5,
            0.05,
            key=key("least"),
            help="A row whose most probable class has less than this is not decided.",
        )
    ellipses = False
    if opened.model.capabilities.uncertainty and axes[1] is not None:
        ellipses = rings.toggle(
            "Ellipses",
            True,
            key=key("ellipses"),
            help=f"Posterior of each new row, {figures.ELLIPSE_SD:g} sd.",
        )
    return axes, colour, least, ellipses


def _dimension(place: DeltaGenerator, title: str, opened: Opened, start: int, key: str) -> int:
    return place.selectbox(
        title,
        range(opened.dimensions),
        index=start,
        format_func=lambda q: str(q + 1),
        key=key,
        help="The latent dimension on this axis.",
    )


def _placed(
    opened: Opened, job: Job, frame: pd.DataFrame, label: str | None, least: float
) -> _Placed:
    from lvmcore.runs.placing import UNUSUAL

    n, dimensions = len(frame), range(1, opened.dimensions + 1)
    none = np.zeros(n, dtype=np.bool_)
    unusual = frame["unusual"].to_numpy() >= UNUSUAL if "unusual" in frame else none
    undecided = wrong = none
    if "predicted" in frame:
        undecided = frame["probability"].to_numpy() < least
        if "label" in frame:
            labelled = frame["label"].notna().to_numpy()
            wrong = labelled & (frame["label"] != frame["predicted"]).to_numpy()
    return _Placed(
        id=job.id,
        frame=frame,
        mean=frame[[f"z{q}" for q in dimensions]].to_numpy(),
        sd=frame[[f"z{q}_sd" for q in dimensions]].to_numpy() if "z1_sd" in frame else None,
        flagged=unusual,
        undecided=undecided,
        wrong=wrong,
        label=label,
        least=least,
    )


def _facts(placed: _Placed, job: Job, opened: Opened) -> str:
    """The rows in a line."""
    parts = [f"**{count(len(placed.frame), 'row')}**"]
    if "unusual" in placed.frame:
        parts.append(f"{int(placed.flagged.sum())} unusual")
    if "predicted" in placed.frame:
        parts.append(f"{int(placed.undecided.sum())} not decided")
    for key in ("accuracy", "expected_calibration_error"):
        metric = job.metrics.get(key)
        if placed.label is not None:
            which = opened.model.label_names_.index(placed.label)
            metric = job.metrics.get(figure_key(key, placed.label, which))
        if metric is not None and metric.value is not None:
            parts.append(f"{markdown(metric.label)} {number(metric.value, 3)}")
    return " · ".join(parts)


# ---- the map ---------------------------------------------------------------------------------


def _rows_of_fit(opened: Opened, axes: Axes, colour: str, label: str | None) -> figures.Rows:
    chosen = figures.evenly(len(opened.mean), chart.MOST_DRAWN)
    look = services.classes(opened.run, label) if colour in (_CLASS, _LABEL) else None
    return figures.Rows(
        points=positions(opened.mean, axes)[chosen],
        number=chosen,
        hover=chart.hover(opened.dataset, look, chosen),
        colouring=part_of(look, chosen),
    )


def _layer(
    opened: Opened, placed: _Placed, axes: Axes, colour: str, *, ellipses: bool
) -> figures.NewLayer:
    drawn = figures.evenly(len(placed.frame), chart.MOST_DRAWN)
    look = services.classes(opened.run, placed.label)
    codes, unusual = None, None
    if colour == _CLASS:
        codes = _codes(placed.frame["predicted"], look.names if look is not None else ())
        codes[placed.undecided] = -1
    elif colour == _LABEL:
        codes = _codes(placed.frame["label"], look.names if look is not None else ())
    elif colour == _UNUSUAL:
        unusual = placed.frame["unusual"].to_numpy()[drawn]
    sd = None
    if ellipses and placed.sd is not None and axes[1] is not None:
        sd = placed.sd[drawn][:, [axes[0], axes[1]]]
        bare = np.ones(len(drawn), dtype=np.bool_)
        bare[figures.evenly(len(drawn), chart.MOST_ELLIPSES)] = False
        sd[bare] = np.nan
    return figures.NewLayer(
        points=positions(placed.mean, axes)[drawn],
        hover=[_lines(placed.frame.iloc[i], undecided=bool(placed.undecided[i])) for i in drawn],
        classes=look.names if look is not None else (),
        codes=None if codes is None else codes[drawn],
        unusual=unusual,
        flagged=placed.flagged[drawn],
        sd=sd,
    )


def _codes(names: pd.Series, known: tuple[str, ...]) -> NDArray[np.intp]:
    place = {name: code for code, name in enumerate(known)}
    return np.array([place.get(str(name), OTHER) for name in names], dtype=np.intp)


def _lines(row: pd.Series, *, undecided: bool) -> list[str]:
    """What to say of a new row when it is pointed at."""
    lines = [f"new row {shortened(row['row_id'], 60)}"]
    if "predicted" in row:
        sure = "not decided, most probable" if undecided else "predicted"
        lines.append(f"{sure}: {shortened(row['predicted'])} ({number(row['probability'], 3)})")
    if "label" in row:
        own = row["label"]
        lines.append(f"own label: {'(missing)' if pd.isna(own) else shortened(own)}")
    if "unusual" in row and not pd.isna(row["unusual"]):
        lines.append(f"more unusual than {share(row['unusual'])} of the rows of the fit")
    return lines


def share(value: float) -> str:
    """A share in per cent; never rounded up to all."""
    return f"{np.floor(1000 * value) / 10:g} %"


def _caption(opened: Opened, placed: _Placed, *, ellipses: bool) -> str:
    said = [
        "Diamonds are the new rows, placed by their columns alone; faint dots are those of the fit."
    ]
    if ellipses:
        n = min(len(placed.frame), chart.MOST_ELLIPSES)
        what = "each new row" if n == len(placed.frame) else f"{n} new rows, evenly spaced"
        said.append(f"Ellipses: posterior of {what}, {figures.ELLIPSE_SD:g} sd.")
    if placed.flagged.any():
        said.append("A ring marks rows that are more unusual than 99 % of those of the fit.")
    if len(placed.frame) > chart.MOST_DRAWN:
        said.append(f"At most {count(chart.MOST_DRAWN, 'row')} are drawn, evenly spaced.")
    if opened.model.capabilities.labels != "none":
        said.append("The rows of the fit lie where the fit put them, which has seen their labels.")
    return " ".join(said)


# ---- the table and the files -----------------------------------------------------------------


def _table(placed: _Placed) -> None:
    """The rows with a filter, and the files of all of them."""
    groups = {_ALL: np.ones(len(placed.frame), dtype=np.bool_)}
    if "unusual" in placed.frame:
        groups[_FLAGGED] = placed.flagged
    if "predicted" in placed.frame:
        groups[_UNDECIDED] = placed.undecided
        if "label" in placed.frame:
            groups[_WRONG] = placed.wrong
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left:
        group = st.segmented_control(
            "Rows",
            list(groups),
            default=_ALL,
            required=True,
            format_func=lambda name: f"{name} ({int(groups[name].sum())})",
            key=placed.key("group"),
            help="Which of the new rows the table below shows.",
        )
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        _files(placed)
    names = ["row_id", "label", "predicted", "probability", "unusual", "z1", "z2"]
    frame = placed.frame.loc[groups[group], [name for name in names if name in placed.frame]]
    if len(frame) > _MOST_SHOWN:
        st.caption(f"The first {_MOST_SHOWN} of {count(len(frame), 'row')}; the files hold all.")
    st.dataframe(
        frame.head(_MOST_SHOWN),
        hide_index=True,
        height=320,
        column_config={
            "row_id": st.column_config.TextColumn("row"),
            "label": st.column_config.TextColumn("own label"),
            "probability": st.column_config.NumberColumn(
                format="%.3f", help="Of the predicted class"
            ),
            "unusual": st.column_config.NumberColumn(
                format="%.3f", help="Share of the rows of the fit that the model finds less unusual"
            ),
            "z1": st.column_config.NumberColumn("dimension 1", format="%.3f"),
            "z2": st.column_config.NumberColumn("dimension 2", format="%.3f"),
        },
        key=placed.key("rows"),
        alt="The new rows",
    )


def _files(placed: _Placed) -> None:
    downloads.offer(
        "New rows",
        "new_rows",
        csv=partial(services.placed_csv, placed.id, placed.least),
        parquet=partial(services.placed_parquet, placed.id, placed.least),
        about="Row id, own label, latent means and sds, predicted class, whether it is decided, "
        "all probabilities, and how unusual each row is.",
        key=lambda ending: placed.key(f"file {ending}"),
        h5ad=partial(services.placed_h5ad, placed.id, placed.least),
    )


def _figures_and_notes(job: Job, notes: tuple[str, ...]) -> None:
    if job.metrics:
        with st.expander("Figures about these rows"):
            for metric in job.metrics.values():
                value = number(metric.value, 3) if metric.value is not None else "not measured"
                st.markdown(f"{markdown(metric.label)}: **{value}**. {markdown(metric.protocol)}")
    with st.container(gap="xxsmall"):
        for note in notes:
            st.caption(markdown(note))
