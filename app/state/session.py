"""The session: the values that the pages keep between reruns, some of them in the address.

``session.model_key = "ppca"`` assigns one, ``session.point[run]`` reads one that belongs to a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from app.state.choices import (
    DEFAULT_SAMPLE,
    ColumnChoices,
    FailedSource,
    FitChoices,
    NewTableUpload,
    ReadingChoices,
    RoleChoices,
    SampleChoice,
    Source,
    TargetChoice,
    TypeChoices,
)
from app.state.history import History
from app.state.values import AddressValue, KeyedAddressValue, KeyedValue, SessionValue

if TYPE_CHECKING:
    from app.analysis.map.map_view import MapView, Ranges, ShownAxes
    from app.analysis.map.reconstruction import MapPoint
    from app.analysis.map.regions import Region
    from app.analysis.map.selections import Selection

__all__ = ["Session", "session"]

_RUN_PARAMETER = "run"
_RUN_KEY = "run"


def _split_ids(text: str) -> tuple[str, ...]:
    """Distinct ids of a list separated by commas, in order."""
    return tuple(dict.fromkeys(part for part in text.split(",") if part))


def _text(value: str | None) -> str:
    return value or ""


class Session:
    """The values of the current session.

    Attributes:
        run_id: the open run; the one in the address, else the one opened last.
        source: the chosen table; None means that of the open run, else the default sample.
        reading: options for parsing the table.
        failed_source: the last upload, where it could not be read.
        role_choices: roles of a table's columns, by digest; None before a choice.
        type_choices: chosen types of a table's columns, by digest.
        columns: roles and types of a table's columns as the page shows them, with undo and redo.
        model_key: the chosen model; None means the recommended one.
        target: the column to predict, by (digest of the dataset, id of the open run); None fits
            a map.
        fits: what the page of a dataset would fit, by digest, with undo and redo.
        start_error: why the last fit could not be started, for the form to show.
        fit_started: whether the Fit button has just started a fit.
        point: the selected point of a run's map.
        selection: the selected rows of a run's map.
        views: the view of a run's map, with undo and redo.
        map_view: the text of the view of a run's map; None for that of a new map.
        left_out: what the view in the address was opened without, by run, as a sentence.
        zoom: the zoom that the map of a run was last set to: its axes, its ranges or None for the
            whole map, and the number of times that one was set.
        new_table: the last uploaded table of new rows.
        placement: id of the job that infers positions of new rows, by run.
        named_points: latent coordinates by name, by run; the letters of paths, and "cursor".
        selected_runs: ids of the runs ticked on the Runs page.
        deletions: ids of the last deletions, which can be undone.
        compared_runs: ids of the runs side by side; those in the address, else the last ones.
        compared_region: a run and the region drawn on its own map.
        compared_row: a row to mark on all maps, as position in its dataset, by digest.
        sweep_id: the shown sweep; None shows maps side by side.
        paper: key of the shown paper; None shows the first.
        paper_row: the selected row of the tables, as positions of its table and of its row.
        paper_figure: position of the selected figure of a paper.
        tour_step: the shown step of the tour, from 0; None outside the tour.
        tour_ended: whether the tour was left, so that it is not offered again.
    """

    __slots__ = ()  # so that only declared values can be assigned

    run_id: AddressValue[str | None] = AddressValue(
        _RUN_KEY, None, parameter=_RUN_PARAMETER, decode=str, encode=_text
    )
    _last_run: SessionValue[str | None] = SessionValue(_RUN_KEY, None)

    # Data
    source: SessionValue[Source | None] = SessionValue("source", None)
    reading: SessionValue[ReadingChoices] = SessionValue("reading", ReadingChoices())
    failed_source: SessionValue[FailedSource | None] = SessionValue("failed", None)
    role_choices: KeyedValue[str, RoleChoices | None] = KeyedValue("roles", None)
    type_choices: KeyedValue[str, TypeChoices] = KeyedValue("types", TypeChoices())
    columns: History[ColumnChoices] = History("columns")

    # Fit
    model_key: SessionValue[str | None] = SessionValue("model", None)
    target: KeyedValue[tuple[str, str | None], TargetChoice | None] = KeyedValue("aim", None)
    fits: History[FitChoices] = History("fits", FitChoices.same_choices)
    start_error: SessionValue[str | None] = SessionValue("problem", None)
    fit_started: SessionValue[bool] = SessionValue("started", False)

    # Latent map
    point: KeyedValue[str, MapPoint | None] = KeyedValue("latent.point", None)
    selection: KeyedValue[str, Selection | None] = KeyedValue("latent.selection", None)
    # A change of the clicked point or of the zoom alone is no step.
    views: History[MapView] = History("latent.views", lambda one, two: one.same_choices(two))
    left_out: KeyedValue[str, str | None] = KeyedValue("latent.left_out", None)
    zoom: KeyedValue[str, tuple[ShownAxes, Ranges | None, int]] = KeyedValue(
        "latent.zoom", (None, None, 0)
    )
    map_view = KeyedAddressValue("latent.view", parameter="view")
    _attempt: KeyedValue[str, int] = KeyedValue("latent.attempt", 0)

    # New rows
    new_table: SessionValue[NewTableUpload | None] = SessionValue("new_rows.table", None)
    placement = KeyedAddressValue("new_rows.placing", parameter="rows")

    # Generate
    named_points: KeyedValue[str, dict[str, tuple[float, ...]]] = KeyedValue("generate.spots", {})

    # Runs
    selected_runs: SessionValue[tuple[str, ...]] = SessionValue("runs.chosen", ())
    deletions: SessionValue[tuple[str, ...]] = SessionValue("runs.deletions", ())

    # Compare
    compared_runs: AddressValue[tuple[str, ...]] = AddressValue(
        "compare.runs", (), parameter="runs", decode=_split_ids, encode=",".join
    )
    compared_region: SessionValue[tuple[str, Region] | None] = SessionValue("compare.region", None)
    compared_row: KeyedValue[str, int | None] = KeyedValue("compare.row", None)
    sweep_id: AddressValue[str | None] = AddressValue(
        "compare.sweep", None, parameter="sweep", decode=str, encode=_text
    )

    # Papers
    paper: AddressValue[str | None] = AddressValue(
        "papers.paper", None, parameter="paper", decode=str, encode=_text
    )
    paper_row: KeyedValue[str, tuple[int, int] | None] = KeyedValue("papers.row", None)
    paper_figure: KeyedValue[str, int | None] = KeyedValue("papers.figure", None)

    # Tour
    tour_step: SessionValue[int | None] = SessionValue("tour.place", None)
    tour_ended: SessionValue[bool] = SessionValue("tour.left", False)

    @property
    def is_dark(self) -> bool:
        """Whether the page has the dark theme."""
        return bool(st.context.theme.type == "dark")

    def comparison_with(self, run: str | None) -> tuple[str, ...]:
        """The runs to compare: those in the address, else the last ones if a run is among them.

        Args:
            run: the open run; None takes the last ones.
        """
        last = self.compared_runs
        return last if Session.compared_runs.in_address or run is None or run in last else ()

    def open_run_with_dataset(self, run: str) -> None:
        """Open a run and make its dataset the session's."""
        self.run_id = run
        self.map_view[run] = None  # the one in the address belongs to the previous run
        self._clear_source()

    def sync_address(self) -> None:
        """Write the open run to the address: a change of page removes the query, and the view.

        A run that came by the address, with a link or a step back, brings its dataset along.
        """
        run = self.run_id
        if run is not None:
            if run != self._last_run:
                self._clear_source()
            if not Session.run_id.in_address:
                self.map_view.forget()
            self.run_id = run

    def choose_source(self, source: Source, reading: ReadingChoices | None = None) -> None:
        """Choose another table, or other options for parsing the same one."""
        self.source = source
        self.reading = reading or ReadingChoices()
        self.failed_source = None

    def pin_source(self) -> None:
        """Choose the default sample where no table is chosen, so that a run does not change it."""
        if self.source is None:
            self.choose_source(SampleChoice(DEFAULT_SAMPLE))

    def map_changed(self, run: str, attempt: int) -> bool:
        """Whether the map of a run is from another attempt than at the last call for this run."""
        previous = self._attempt.get(run, attempt)
        self._attempt[run] = attempt
        return previous != attempt

    def set_named_point(self, run: str, name: str, latent: tuple[float, ...]) -> None:
        """Name a position of a run's map."""
        self.named_points[run] = {**self.named_points[run], name: latent}

    def show_tour_step(self, step: int) -> None:
        """Show a step of the tour."""
        self.tour_step = step

    def end_tour(self) -> None:
        """End the tour, and do not offer it again."""
        self.tour_step = None
        self.tour_ended = True

    @staticmethod
    def query_of(run: str | None) -> dict[str, str]:
        """Query parameters of a link to a page with an open run."""
        return {} if run is None else {_RUN_PARAMETER: run}

    def link(self, run: str, view: str) -> str:
        """Address of the page with a run and the text of a view of its map."""
        query = self.query_of(run) | ({self.map_view.parameter: view} if view else {})
        return f"{st.context.url or ''}?{urlencode(query)}"

    def _clear_source(self) -> None:
        """Use the dataset of the open run as the session's."""
        self.source = None
        self.reading = ReadingChoices()
        self.failed_source = None


#: The values of whichever session runs the script.
session = Session()
