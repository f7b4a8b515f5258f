"""Check of a table of new rows: matched, missing, unused and suspicious columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from app.components.number_choices import number_choices
from app.components.table_upload import (
    current_upload,
    detected_format,
    has_reading_choices,
    reading_form,
)
from app.formatting import count, distinct_titles, grouped, listed, markdown, shortened
from app.services import fitted_maps, placement, tables
from app.state.choices import FileSource, NewTableUpload, ReadingChoices
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data import ColumnMatching, Dataset, Table, known_answers
from lvmcore.errors import LatentboardError

if TYPE_CHECKING:
    from lvmcore.prediction.new_table import MatchedTable, NewTableRoles

__all__ = ["NewTableUse", "handle_new_upload", "new_table_panel", "read_new_table"]

_NONE = ""
_MOST_SHOWN = 20
_HEIGHT = 460


@dataclass(frozen=True)
class NewTableUse:
    """How a page uses a table of new rows.

    Attributes:
        page: page of the widget keys.
        run: id of the fitted run.
        model: title of its model.
        labels: names of the label columns of the fit.
        compares_labels: whether labels of the table are compared with predictions.
        action: title of the button.
        action_help: help text of the button.
        start: starts the job for a run and its new rows, and returns its id.
    """

    page: str
    run: str
    model: str
    labels: tuple[str, ...]
    compares_labels: bool
    action: str
    action_help: str
    start: Callable[[str, Dataset], str]

    def key(self, *parts: object) -> str:
        """Key of a widget."""
        return widget_key(self.page, self.run, *parts)


def new_table_panel(
    use: NewTableUse, given: NewTableUpload, read: Callable[[FileSource, ReadingChoices], None]
) -> None:
    """Draw how a table matches the columns of the fit, and the button that uses it.

    Args:
        use: how the page uses the table.
        given: the uploaded table.
        read: reads the upload with other options.
    """
    try:
        table = tables.table(given.upload, given.reading)
        proposed = placement.new_table_roles(use.run, table)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    number_choices(given.upload, table, given.reading, read)
    head = st.container()
    left, right = st.columns([2, 1], gap="medium")
    with right:
        roles = _choose_roles(use, table, proposed)
        detected_format(table)
        if has_reading_choices(given.upload, table):
            with st.expander("Change how it is read"):
                reading_form(given.upload, table, current=given.reading, on_submit=read)
    rows: MatchedTable | None = None
    with head:
        try:
            rows = placement.matched_table(use.run, table, roles)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            _action_panel(use, rows)
    with left:
        _column_table(use, placement.column_matching(use.run, table, roles), rows)
        _notes(table, rows)


def handle_new_upload(run: str, key: str) -> None:
    """Make the file of an uploader the new table of the session.

    Args:
        run: id of the fitted run.
        key: widget key of the uploader.
    """
    upload = current_upload(key)
    if upload is None:
        session.new_table = None
    else:
        read_new_table(run, upload, ReadingChoices())


def read_new_table(run: str, upload: FileSource, reading: ReadingChoices) -> None:
    """Make an upload the new table of the session, and close the results of another one."""
    try:
        reading = _as_fitted(run, tables.table(upload, reading), reading)
        tables.table(upload, reading)
    except LatentboardError as error:
        session.new_table = NewTableUpload(upload, reading, str(error))
        return
    session.new_table = NewTableUpload(upload, reading)
    session.placement[run] = None


def _as_fitted(run: str, table: Table, reading: ReadingChoices) -> ReadingChoices:
    """The reading choices, with the decimal marks of the fit where two readings are possible."""
    try:
        fitted = fitted_maps.fitted_dataset(run)
    except LatentboardError:  # the pages explain it where they need the rows
        return reading
    known = known_answers(table.questions, fitted.column_decimals)
    together = known | dict(reading.column_decimals or ())
    return replace(reading, column_decimals=tuple(together.items())) if known else reading


def _choose_roles(use: NewTableUse, table: Table, proposed: NewTableRoles) -> NewTableRoles:
    """Choice of the columns of row ids and labels."""
    from lvmcore.prediction.new_table import NewTableRoles

    names = [_NONE, *map(str, table.frame.columns)]

    def choose(title: str, default: str | None, nothing: str, about: str) -> str | None:
        titles = distinct_titles(shortened(name) if name else nothing for name in names)
        return (
            st.selectbox(
                title,
                names,
                index=names.index(default or _NONE),
                format_func=dict(zip(names, titles, strict=True)).__getitem__,
                key=use.key(table.digest, title),
                help=about,
            )
            or None
        )

    row_id = choose("Row id", proposed.row_id, "numbered from 1", "The column of row names.")
    if len(use.labels) > 1:
        chosen = _choose_labels(use, table, proposed)
        return NewTableRoles(row_id, chosen[0] if chosen else None, tuple(chosen[1:]))
    if not use.compares_labels:
        return NewTableRoles(row_id)
    return NewTableRoles(
        row_id=row_id,
        label=choose(
            "Label to compare with",
            proposed.label,
            "none",
            "Classes in this file, if any. They have no effect on the positions.",
        ),
    )


def _choose_labels(use: NewTableUse, table: Table, proposed: NewTableRoles) -> list[str]:
    """Choice of the label columns of the file."""
    titles = distinct_titles(shortened(name) for name in proposed.labels)
    positions = list(range(len(titles)))
    chosen = st.multiselect(
        "Labels to compare with",
        positions,
        default=positions,
        format_func=titles.__getitem__,
        placeholder="none",
        disabled=not proposed.labels,
        key=use.key(table.digest, "labels"),
        help="Columns of this file with the names of the labels of the fit. They have no effect on "
        "the positions.",
    )
    return [proposed.labels[position] for position in chosen]


def _action_panel(use: NewTableUse, rows: MatchedTable) -> None:
    """The size of the table, the button that uses it, and warnings."""
    text, button = st.columns([4, 1], vertical_alignment="center")
    n = len(rows.dataset)
    found, missing = len(rows.matching.columns), len(rows.matching.missing)
    with text:
        st.markdown(
            f"**{markdown(rows.dataset.name)}: {count(n, 'row')}, "
            f"{grouped(f'{found:,}')} of {count(found + missing, 'column')} found**"
        )
    with button:
        if st.button(
            use.action,
            type="primary",
            key=use.key("place"),
            disabled=rows.incomplete == n,
            width="stretch",
            help=use.action_help,
        ):
            _start(use, rows)
    if rows.matching.missing:
        st.warning(
            f"{markdown(rows.matching.missing_note())} {markdown(use.model)} takes missing cells: "
            "the result is based on the other cells, with more uncertainty."
        )
    for suspicion in rows.suspicions:
        st.warning(
            f"{markdown(suspicion.text)} No value is converted: use the rows as they are, or "
            "correct the file."
        )
    if rows.unknown_labels:
        st.warning(
            f"The label has classes that are not in the fit: "
            f"{markdown(listed(rows.unknown_labels, 8))}. Predictions of their rows cannot be "
            "correct."
        )
    if rows.incomplete:
        affected = "Every row" if rows.incomplete == n else count(rows.incomplete, "row")
        effect = "have no prediction" if use.page == "predict" else "be left out"
        st.warning(
            f"{affected} will {effect} because of a missing cell: {markdown(use.model)} needs "
            "every cell."
        )


def _start(use: NewTableUse, rows: MatchedTable) -> None:
    try:
        session.placement[use.run] = use.start(use.run, rows.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()


def _column_table(use: NewTableUse, matching: ColumnMatching, rows: MatchedTable | None) -> None:
    """The columns of the fit and of the file; columns with a remark come first."""
    names = list(dict.fromkeys(source.column for source in matching.sources))
    suspected = {name for one in rows.suspicions for name in one.columns} if rows else set()
    columns: dict[str, list[object]] = {
        "column of the fit": [*names],
        "in this file": [matching.columns.get(name) for name in names],
        "remark": [
            "other units?"
            if matching.columns.get(name) in suspected
            else _match_remark(matching, name)
            for name in names
        ],
    }
    if rows is not None:
        medians = [rows.medians.get(name, (None, None)) for name in names]
        columns["median here"] = [here for here, _ in medians]
        columns["in the fit"] = [there for _, there in medians]
    frame = pd.DataFrame(columns)
    order = frame["remark"].eq("").astype(int).sort_values(kind="stable").index
    number = st.column_config.NumberColumn(format="%.4g", width=76)
    st.dataframe(
        frame.loc[order],
        hide_index=True,
        placeholder="–",
        height="content" if len(frame) <= _MOST_SHOWN else _HEIGHT,
        column_config={
            "column of the fit": st.column_config.TextColumn(width=140),
            "in this file": st.column_config.TextColumn(width=140),
            "remark": st.column_config.TextColumn(width=140 if rows else 300),
            "median here": number,
            "in the fit": number,
        },
        key=use.key("columns"),
        alt="Columns of the fit and of the file",
    )


def _match_remark(matching: ColumnMatching, name: str) -> str:
    if name in matching.suggestions:
        return f"missing; {shortened(matching.suggestions[name])} is similar"
    if name in matching.ambiguous:
        return f"no exact match; could be {listed(matching.ambiguous[name])}"
    if name in matching.missing:
        return "missing"
    if name in matching.duplicated:
        return "twice: the first is used"
    return "other case or spacing" if name in matching.approximate else ""


def _notes(table: Table, rows: MatchedTable | None) -> None:
    """Notes on the reading and on unused columns."""
    asked = {question.note for question in table.questions if not question.chosen}
    notes = [note for note in table.notes if note not in asked]
    if rows is not None:
        notes += [note for note in (*rows.matching.notes(), *rows.notes) if note not in notes]
    with st.container(gap="xxsmall"):
        for note in notes:
            st.caption(markdown(note))
