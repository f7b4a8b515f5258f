"""A table of new rows before it is placed: what was matched, ignored, missing, suspicious."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from app import intake, services, state
from app.state import NewTable, Reading, Upload
from app.words import count, grouped, listed, markdown, shortened, told_apart
from lvmcore.data import Dataset, Matching, Table
from lvmcore.errors import LatentboardError

if TYPE_CHECKING:
    from lvmcore.runs.newrows import NewRows, Roles

__all__ = ["Use", "read", "show", "uploaded"]

_NONE = ""
_MOST_SHOWN = 20
_HEIGHT = 460


@dataclass(frozen=True)
class Use:
    """What a page does with a table of new rows.

    Attributes:
        page: what its widgets belong to.
        run: the fitted run.
        model: what its model is called.
        labels: names of the label columns that it learned from.
        compares: whether a label of the table is compared with what the model says.
        does: what the button does, in two or three words.
        means: the same in a sentence.
        start: does it: from the run and its rows, the id of what is under way.
    """

    page: str
    run: str
    model: str
    labels: tuple[str, ...]
    compares: bool
    does: str
    means: str
    start: Callable[[str, Dataset], str]

    def key(self, *parts: object) -> str:
        """Key of a widget."""
        return state.widget(self.page, self.run, *parts)


def show(use: Use, given: NewTable, read: Callable[[Upload, Reading], None]) -> None:
    """Draw what a table is to the open run's model, and the way to use it.

    Args:
        use: what is done with it.
        given: the table.
        read: reads it in another way.
    """
    try:
        table = services.table(given.upload, given.reading)
        proposed = services.new_roles(use.run, table)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    head = st.container()
    found, chosen = st.columns([2, 1], gap="medium")
    with chosen:
        roles = _roles(use, table, proposed)
        intake.found(table)
        if intake.has_choices(given.upload, table):
            with st.expander("Read it in another way"):
                intake.form(given.upload, table, current=given.reading, take=read)
    rows: NewRows | None = None
    with head:
        try:
            rows = services.new_rows(use.run, table, roles)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            _ready(use, rows)
    with found:
        _columns(use, services.matching(use.run, table, roles), rows)
        _notes(table, rows)


def uploaded(run: str, key: str) -> None:
    """Look at what an uploader holds, as rows for a run.

    Args:
        run: the fitted run.
        key: of the uploader.
    """
    upload = intake.uploaded(key)
    if upload is None:
        state.set_new_table(None)
    else:
        read(run, upload, Reading())


def read(run: str, upload: Upload, reading: Reading) -> None:
    """Look at an uploaded table from now on; what was made of another one makes room for it."""
    try:
        services.table(upload, reading)
    except LatentboardError as error:
        state.set_new_table(NewTable(upload, reading, str(error)))
        return
    state.set_new_table(NewTable(upload, reading))
    state.set_placing(run, None)


def _roles(use: Use, table: Table, proposed: Roles) -> Roles:
    """Which columns name the rows and hold a label."""
    from lvmcore.runs.newrows import Roles

    names = [_NONE, *map(str, table.frame.columns)]

    def ask(title: str, start: str | None, nothing: str, about: str) -> str | None:
        return (
            st.selectbox(
                title,
                names,
                index=names.index(start or _NONE),
                format_func=lambda name: shortened(name) if name else nothing,
                key=use.key(table.digest, title),
                help=about,
            )
            or None
        )

    row_id = ask("Row id", proposed.row_id, "numbered from 1", "The column that names the rows.")
    if len(use.labels) > 1:
        chosen = _labels(use, table, proposed)
        return Roles(row_id, chosen[0] if chosen else None, tuple(chosen[1:]))
    if not use.compares:
        return Roles(row_id)
    return Roles(
        row_id=row_id,
        label=ask(
            "Label to compare with",
            proposed.label,
            "none",
            "Classes in this file, if it has any. They do not decide where its rows lie.",
        ),
    )


def _labels(use: Use, table: Table, proposed: Roles) -> list[str]:
    """Which columns of the file hold labels that the model learned from."""
    titles = told_apart(shortened(name) for name in proposed.labels)
    places = list(range(len(titles)))
    chosen = st.multiselect(
        "Labels to compare with",
        places,
        default=places,
        format_func=titles.__getitem__,
        placeholder="none",
        disabled=not proposed.labels,
        key=use.key(table.digest, "labels"),
        help="Columns of this file that are called as the labels of the fit. They do not decide "
        "where its rows lie.",
    )
    return [proposed.labels[place] for place in chosen]


def _ready(use: Use, rows: NewRows) -> None:
    """What will be placed, what is suspicious about it, and the button."""
    text, button = st.columns([4, 1], vertical_alignment="center")
    n = len(rows.dataset)
    there, wanted = len(rows.matching.columns), len(rows.matching.missing)
    with text:
        st.markdown(
            f"**{markdown(rows.dataset.name)}: {count(n, 'row')}, "
            f"{grouped(f'{there:,}')} of {count(there + wanted, 'column')} found**"
        )
    with button:
        if st.button(
            use.does,
            type="primary",
            key=use.key("place"),
            disabled=rows.incomplete == n,
            width="stretch",
            help=use.means,
        ):
            _place(use, rows)
    if rows.matching.missing:
        st.warning(
            f"{markdown(rows.matching.missing_note())} {markdown(use.model)} takes rows "
            "that lack cells: it places them by the others, less surely."
        )
    for suspicion in rows.suspicions:
        st.warning(
            f"{markdown(suspicion.text)} Nothing is converted: use the rows as they are, or "
            "correct the file."
        )
    if rows.unknown_labels:
        st.warning(
            f"The label has classes that the model does not know: "
            f"{markdown(listed(rows.unknown_labels, 8))}. Their rows are placed; no prediction of "
            "them can be right."
        )
    if rows.incomplete:
        which = "Every row" if rows.incomplete == n else count(rows.incomplete, "row")
        fate = "have no prediction" if use.page == "predict" else "be left out"
        st.warning(
            f"{which} will {fate} for a missing cell: {markdown(use.model)} needs every cell."
        )


def _place(use: Use, rows: NewRows) -> None:
    try:
        state.set_placing(use.run, use.start(use.run, rows.dataset))
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()


def _columns(use: Use, matching: Matching, rows: NewRows | None) -> None:
    """The model's columns beside those of the file; what is worth a look comes first."""
    names = list(dict.fromkeys(source.column for source in matching.sources))
    suspected = {name for one in rows.suspicions for name in one.columns} if rows else set()
    columns: dict[str, list[object]] = {
        "the model's column": [*names],
        "in this file": [matching.columns.get(name) for name in names],
        "to note": [
            "other units?" if matching.columns.get(name) in suspected else _how(matching, name)
            for name in names
        ],
    }
    if rows is not None:
        medians = [rows.medians.get(name, (None, None)) for name in names]
        columns["median here"] = [here for here, _ in medians]
        columns["in the fit"] = [there for _, there in medians]
    frame = pd.DataFrame(columns)
    order = frame["to note"].eq("").astype(int).sort_values(kind="stable").index
    number = st.column_config.NumberColumn(format="%.4g", width=76)
    st.dataframe(
        frame.loc[order],
        hide_index=True,
        placeholder="–",
        height="content" if len(frame) <= _MOST_SHOWN else _HEIGHT,
        column_config={
            "the model's column": st.column_config.TextColumn(width=140),
            "in this file": st.column_config.TextColumn(width=140),
            "to note": st.column_config.TextColumn(width=140 if rows else 300),
            "median here": number,
            "in the fit": number,
        },
        key=use.key("columns"),
        alt="The model's columns and those of the file",
    )


def _how(matching: Matching, name: str) -> str:
    if name in matching.nearest:
        return f"not there; {shortened(matching.nearest[name])} is near"
    if name in matching.ambiguous:
        return f"not there exactly; could be {listed(matching.ambiguous[name])}"
    if name in matching.missing:
        return "not there"
    if name in matching.twice:
        return "there twice: the first"
    return "other case or spacing" if name in matching.alike else ""


def _notes(table: Table, rows: NewRows | None) -> None:
    """What else there is to say: how it was read, what is not used."""
    said = list(table.notes)
    if rows is not None:
        said += [note for note in (*rows.matching.notes(), *rows.notes) if note not in said]
    with st.container(gap="xxsmall"):
        for note in said:
            st.caption(markdown(note))
