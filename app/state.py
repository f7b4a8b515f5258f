"""What a session remembers: the only file that names session_state keys and query parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

if TYPE_CHECKING:
    from app.exploring import Point
    from app.regions import Region
    from app.selections import Selection

__all__ = [
    "DEFAULT_SAMPLE",
    "Aim",
    "Failed",
    "NewTable",
    "Reading",
    "Roles",
    "Sample",
    "Source",
    "Types",
    "Upload",
    "address",
    "aim",
    "can_undo_selection",
    "choose",
    "choose_runs",
    "chosen_runs",
    "close_run",
    "compared",
    "compared_region",
    "compared_row",
    "dark",
    "drop_selections",
    "failed",
    "keep_source",
    "leave_tour",
    "map_changed",
    "model_key",
    "new_table",
    "open_run",
    "placing",
    "point",
    "problem",
    "reading",
    "roles",
    "run_id",
    "selection",
    "set_aim",
    "set_compared",
    "set_compared_region",
    "set_compared_row",
    "set_failed",
    "set_model_key",
    "set_new_table",
    "set_placing",
    "set_point",
    "set_problem",
    "set_roles",
    "set_selection",
    "set_spot",
    "set_sweep",
    "set_tour",
    "set_types",
    "set_value",
    "source",
    "spots",
    "sweep",
    "sync_address",
    "tour",
    "tour_left",
    "types",
    "undo_selection",
    "value",
    "widget",
]

#: The sample that a first visit finds ready to fit.
DEFAULT_SAMPLE = "wine"
#: So many selections can be gone back to.
_MOST_BEFORE = 20

_QUERY_RUN = "run"
_QUERY_COMPARED = "runs"
_QUERY_PLACING = "rows"
_RUN = "run"
_SOURCE = "source"
_READING = "reading"
_ROLES = "roles"
_TYPES = "types"
_FAILED = "failed"
_MODEL = "model"
_AIM = "aim"
_PROBLEM = "problem"
_STARTED = "started"
_POINT = "latent.point"
_SELECTION = "latent.selection"
_BEFORE = "latent.selections_before"
_ATTEMPT = "latent.attempt"
_NEW_TABLE = "new_rows.table"
_PLACING = "new_rows.placing"
_SPOTS = "generate.spots"
_CHOSEN = "runs.chosen"
_COMPARED = "compare.runs"
_COMPARED_REGION = "compare.region"
_COMPARED_ROW = "compare.row"
_SWEEP = "compare.sweep"
_QUERY_SWEEP = "sweep"
_TOUR = "tour.place"
_TOUR_LEFT = "tour.left"


@dataclass(frozen=True)
class Sample:
    """A table that the package brings along.

    Attributes:
        key: its key in ``lvmcore.data.samples()``.
    """

    key: str


@dataclass(frozen=True)
class Upload:
    """A file that this session uploaded; only the last one is kept.

    Attributes:
        name: the file's name.
        digest: SHA-256 of its bytes, hexadecimal.
        content: its bytes.
    """

    name: str
    digest: str
    content: bytes = field(repr=False)


Source = Sample | Upload


@dataclass(frozen=True)
class Reading:
    """How to read a table; None leaves the choice to detection.

    Attributes:
        delimiter: one character between the cells of a row.
        encoding: of the text.
        decimal: the decimal mark.
        header: whether the first row holds the names, or the number of the row that does, from 0.
        missing: what marks a missing cell.
        thousands: the mark between groups of three digits; "" where there is none.
        sheet: the sheet of a workbook, or the matrix of an H5AD file.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    header: int | bool | None = None
    missing: tuple[str, ...] | None = None
    thousands: str | None = None
    sheet: str | None = None


@dataclass(frozen=True)
class Failed:
    """An upload that could not be read.

    Attributes:
        upload: the file.
        message: why, and what to try.
    """

    upload: Upload
    message: str


@dataclass(frozen=True)
class NewTable:
    """A table of new rows that this session uploaded.

    Attributes:
        upload: the file.
        reading: how to read it.
        problem: why it cannot be read; None where it can.
    """

    upload: Upload
    reading: Reading = Reading()
    problem: str | None = None


@dataclass(frozen=True)
class Types:
    """Column types that somebody chose in place of the proposed ones.

    Attributes:
        chosen: name and type of each such column.
        problem: why the last choice was refused; None where it was not.
        turn: counts the choices, so that a new editor takes the place of the one before.
    """

    chosen: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    turn: int = 0


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are used for.

    Attributes:
        features: names of the columns to learn from, in the table's order.
        label: name of the label column, or None; the first, where there are several.
        row_id: name of the column that names the rows, or None.
        log1p: names of the columns that enter as log(1 + x), where they are features.
        one_hot: names of the columns that enter as a feature a level, where they are features.
        hold_out: share of the rows that a fit leaves out, to be measured with them.
        more_labels: names of the further label columns.
    """

    features: tuple[str, ...]
    label: str | None
    row_id: str | None
    log1p: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    hold_out: float = 0.0
    more_labels: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All label columns, the first one first."""
        return () if self.label is None else (self.label, *self.more_labels)


@dataclass(frozen=True)
class Aim:
    """A column to predict, and what decides which rows a fit to it leaves out.

    Attributes:
        target: name of the column.
        groups: column whose groups are left out as a whole; "" for none.
        time: column whose last rows are left out; "" for none.
    """

    target: str
    groups: str = ""
    time: str = ""


def _get(key: str) -> Any:
    return st.session_state.get(key)


# ---- the run ---------------------------------------------------------------------------------


def run_id() -> str | None:
    """The open run: the one in the address, else the one that this session opened last."""
    named = st.query_params.get(_QUERY_RUN)
    return named or cast("str | None", _get(_RUN))


def open_run(run: str, *, follow: bool = False) -> None:
    """Open a run: it is in the address from now on.

    Args:
        run: its id.
        follow: whether the run's data become the session's data.
    """
    st.session_state[_RUN] = run
    st.query_params[_QUERY_RUN] = run
    if follow:
        _follow()


def _follow() -> None:
    """Let the open run's data be the session's."""
    for key in (_SOURCE, _READING, _FAILED):
        st.session_state.pop(key, None)


def close_run() -> None:
    """Open no run."""
    st.session_state.pop(_RUN, None)
    st.query_params.pop(_QUERY_RUN, None)


def sync_address() -> None:
    """Keep the open run in the address: a change of page drops what follows the question mark.

    A run that came by the address, with a link or a step back, brings its data along.
    """
    run = run_id()
    if run is not None:
        if run != _get(_RUN):
            _follow()
        st.session_state[_RUN] = run
        if st.query_params.get(_QUERY_RUN) != run:
            st.query_params[_QUERY_RUN] = run


# ---- the data --------------------------------------------------------------------------------


def source() -> Source | None:
    """The table that this session chose; None follows the open run, or else the first sample."""
    return cast("Source | None", _get(_SOURCE))


def choose(source: Source, reading: Reading | None = None) -> None:
    """Work on another table, or on the same one read in another way."""
    st.session_state[_SOURCE] = source
    st.session_state[_READING] = reading or Reading()
    st.session_state[_FAILED] = None


def keep_source() -> None:
    """Keep to the table that is shown, when a run of it is opened."""
    if _get(_SOURCE) is None:
        choose(Sample(DEFAULT_SAMPLE))


def reading() -> Reading:
    """How the table is to be read."""
    return cast("Reading", _get(_READING) or Reading())


def roles(digest: str) -> Roles | None:
    """What the columns of the table with this digest are used for; None until somebody chooses."""
    kept: tuple[str, Roles] | None = _get(_ROLES)
    return kept[1] if kept is not None and kept[0] == digest else None


def set_roles(digest: str, roles: Roles) -> None:
    """Use the columns of the table with this digest in another way."""
    st.session_state[_ROLES] = (digest, roles)


def types(digest: str) -> Types:
    """The column types chosen for the table with this digest."""
    kept: tuple[str, Types] | None = _get(_TYPES)
    return kept[1] if kept is not None and kept[0] == digest else Types()


def set_types(digest: str, types: Types) -> None:
    """Choose other column types for the table with this digest."""
    st.session_state[_TYPES] = (digest, types)


def failed() -> Failed | None:
    """The last upload, where it could not be read."""
    return cast("Failed | None", _get(_FAILED))


def set_failed(failed: Failed | None) -> None:
    """Remember an upload that could not be read; None once that is settled."""
    st.session_state[_FAILED] = failed


# ---- the fit page ----------------------------------------------------------------------------


def model_key() -> str | None:
    """The model whose card is chosen; None leaves it to the recommendation."""
    return cast("str | None", _get(_MODEL))


def set_model_key(key: str) -> None:
    """Choose a model's card."""
    st.session_state[_MODEL] = key


def aim(digest: str, run: str | None, otherwise: Aim | None) -> Aim | None:
    """The column of the dataset with this digest to predict; None for a map.

    Args:
        digest: of the dataset.
        run: id of the open run; another one brings its own aim.
        otherwise: what it is until somebody chooses.
    """
    kept: tuple[str, str | None, Aim | None] | None = _get(_AIM)
    return kept[2] if kept is not None and kept[:2] == (digest, run) else otherwise


def set_aim(digest: str, run: str | None, aim: Aim | None) -> None:
    """Predict a column of the dataset with this digest, beside the open run; None for a map."""
    st.session_state[_AIM] = (digest, run, aim)


def problem() -> str | None:
    """Why the last Start did not start, for the form to show."""
    return cast("str | None", _get(_PROBLEM))


def set_problem(text: str | None) -> None:
    """Remember why Start did not start; None after it did."""
    st.session_state[_PROBLEM] = text


def set_started() -> None:
    """Remember that a fit was started by the button that was just pressed."""
    st.session_state[_STARTED] = True


def take_started() -> bool:
    """Whether one was, told once."""
    return bool(st.session_state.pop(_STARTED, False))


# ---- the latent page: one memory per run -----------------------------------------------------


def point(run: str) -> Point | None:
    """The point of the map that was clicked."""
    memory: dict[str, Point | None] = _get(_POINT) or {}
    return memory.get(run)


def set_point(run: str, point: Point | None) -> None:
    """Remember the point of the map that was clicked."""
    st.session_state[_POINT] = {run: point}


def selection(run: str) -> Selection | None:
    """The rows that are selected: encircled on the map, or found."""
    memory: dict[str, Selection | None] = _get(_SELECTION) or {}
    return memory.get(run)


def set_selection(run: str, selected: Selection | None) -> None:
    """Select rows; what was selected before can be had back."""
    before = selection(run)
    if selected != before:
        st.session_state[_BEFORE] = {run: (*_before(run), before)[-_MOST_BEFORE:]}
        st.session_state[_SELECTION] = {run: selected}


def drop_selections(run: str, which: Callable[[Selection], bool]) -> None:
    """Let go of selections that hold no more, those of before among them."""
    now = selection(run)
    kept = (one for one in _before(run) if one is None or not which(one))
    st.session_state[_BEFORE] = {run: tuple(kept)}
    st.session_state[_SELECTION] = {run: None if now is not None and which(now) else now}


def map_changed(run: str, attempt: int) -> bool:
    """Whether a run's map is another than the one that was looked at last."""
    memory: dict[str, int] = _get(_ATTEMPT) or {}
    st.session_state[_ATTEMPT] = {run: attempt}
    return memory.get(run, attempt) != attempt


def can_undo_selection(run: str) -> bool:
    """Whether something else was selected before."""
    return bool(_before(run))


def undo_selection(run: str) -> None:
    """Go back to what was selected before, if anything was: a button may be clicked twice."""
    if not _before(run):
        return
    *others, last = _before(run)
    st.session_state[_BEFORE] = {run: tuple(others)}
    st.session_state[_SELECTION] = {run: last}


def _before(run: str) -> tuple[Selection | None, ...]:
    memory: dict[str, tuple[Selection | None, ...]] = _get(_BEFORE) or {}
    return memory.get(run, ())


# ---- the page of new rows ---------------------------------------------------------------------


def new_table() -> NewTable | None:
    """The table of new rows that was uploaded last."""
    return cast("NewTable | None", _get(_NEW_TABLE))


def set_new_table(table: NewTable | None) -> None:
    """Remember an uploaded table of new rows; None lets go of it."""
    st.session_state[_NEW_TABLE] = table


def placing(run: str) -> str | None:
    """What places, or has placed, new rows on a run's map: as in the address, or as last here."""
    named = st.query_params.get(_QUERY_PLACING)
    memory: dict[str, str | None] = _get(_PLACING) or {}
    return named or memory.get(run)


def set_placing(run: str, placing: str | None) -> None:
    """Show rows that were placed on a run's map: in the address from now on; None shows none."""
    st.session_state[_PLACING] = {run: placing}
    if placing is None:
        st.query_params.pop(_QUERY_PLACING, None)
    else:
        st.query_params[_QUERY_PLACING] = placing


# ---- the generate page: one memory per run ---------------------------------------------------


def spots(run: str) -> dict[str, tuple[float, ...]]:
    """Places of the map that were kept, all their coordinates, by their letters."""
    memory: dict[str, dict[str, tuple[float, ...]]] = _get(_SPOTS) or {}
    return memory.get(run, {})


def set_spot(run: str, letter: str, latent: tuple[float, ...]) -> None:
    """Keep a place of the map."""
    st.session_state[_SPOTS] = {run: {**spots(run), letter: latent}}


# ---- the runs page ---------------------------------------------------------------------------


def chosen_runs() -> tuple[str, ...]:
    """Ids of the runs that are ticked."""
    return cast("tuple[str, ...]", _get(_CHOSEN) or ())


def choose_runs(runs: tuple[str, ...]) -> None:
    """Tick runs, and no others."""
    st.session_state[_CHOSEN] = runs


# ---- the compare page ------------------------------------------------------------------------


def compared() -> tuple[str, ...]:
    """The runs side by side: those in the address, else those that this session compared last."""
    named = st.query_params.get(_QUERY_COMPARED)
    if named:
        return tuple(dict.fromkeys(run for run in named.split(",") if run))
    return cast("tuple[str, ...]", _get(_COMPARED) or ())


def set_compared(runs: tuple[str, ...]) -> None:
    """Put runs side by side: they are in the address from now on."""
    st.session_state[_COMPARED] = runs
    if runs:
        st.query_params[_QUERY_COMPARED] = ",".join(runs)
    else:
        st.query_params.pop(_QUERY_COMPARED, None)


def compared_region() -> tuple[str, Region] | None:
    """The region that was drawn on one of the compared maps: the run, and where on its own map."""
    return cast("tuple[str, Region] | None", _get(_COMPARED_REGION))


def set_compared_region(run: str, region: Region | None) -> None:
    """Remember the region that was drawn on a run's map; None forgets it."""
    st.session_state[_COMPARED_REGION] = None if region is None else (run, region)


def compared_row(dataset: str) -> int | None:
    """The row that is looked at on all maps of a dataset, by its position in all of that."""
    memory: dict[str, int | None] = _get(_COMPARED_ROW) or {}
    return memory.get(dataset)


def set_compared_row(dataset: str, row: int | None) -> None:
    """Look at a row of the dataset with this digest on all its maps; None looks at none."""
    st.session_state[_COMPARED_ROW] = {dataset: row}


# ---- the tour --------------------------------------------------------------------------------


def tour() -> int | None:
    """The step of the tour that is shown, from 0; None where nobody takes it."""
    return cast("int | None", _get(_TOUR))


def set_tour(place: int) -> None:
    """Take the tour, at a step of it."""
    st.session_state[_TOUR] = place


def tour_left() -> bool:
    """Whether the tour was taken and left, so that it is not offered again."""
    return bool(_get(_TOUR_LEFT))


def leave_tour() -> None:
    """Leave the tour."""
    st.session_state.pop(_TOUR, None)
    st.session_state[_TOUR_LEFT] = True


def sweep() -> str | None:
    """The sweep that is looked at: the one in the address, else the one that was last here."""
    return st.query_params.get(_QUERY_SWEEP) or cast("str | None", _get(_SWEEP))


def set_sweep(sweep: str | None) -> None:
    """Look at a sweep: it is in the address from now on; None looks at maps side by side."""
    st.session_state[_SWEEP] = sweep
    if sweep is None:
        st.query_params.pop(_QUERY_SWEEP, None)
    else:
        st.query_params[_QUERY_SWEEP] = sweep


# ---- widgets and the page --------------------------------------------------------------------


def widget(page: str, *parts: object) -> str:
    """Key of a widget: the page, then what it belongs to, then its own name."""
    return ":".join((page, *map(str, parts)))


def value(key: str) -> Any:
    """What a widget or a chart's selection holds; None before it is first drawn."""
    return _get(key)


def set_value(key: str, value: object) -> None:
    """Set a widget, in a callback or before it is drawn."""
    st.session_state[key] = value


def dark() -> bool:
    """Whether the page is shown dark."""
    return bool(st.context.theme.type == "dark")


def address(run: str | None) -> dict[str, str]:
    """What the address of a page says of the run that is open on it."""
    return {} if run is None else {_QUERY_RUN: run}
