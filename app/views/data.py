"""Data: load a table or pick a sample, check what was read, and choose what the fit uses."""

from __future__ import annotations

import streamlit as st

from app import closeup, columns, intake, learning, navigation, services, state, tour, working
from app.state import Roles, Upload
from app.words import count, listed, markdown
from lvmcore.data import Dataset, Table
from lvmcore.errors import LatentboardError

_PREVIEW_ROWS = 8


def page() -> None:
    """Draw the page."""
    st.title("Data")
    tour.offer()
    intake.choose()
    failed = state.failed()
    if failed is not None:
        st.error(markdown(failed.message))
        if intake.has_choices(failed.upload, None):
            with st.expander("Read it in another way", expanded=True):
                intake.form(failed.upload, None)
        st.caption("Until it can be read, the data below stay as they were.")
    try:
        if working.following():
            _of_run(working.dataset())
        else:
            _of_table(working.table())
    except LatentboardError as error:
        st.error(markdown(error))


def _of_run(dataset: Dataset) -> None:
    """The data of the open run, which stay as they are."""
    st.header(markdown(dataset.name))
    st.markdown("These are the data of the open run. To fit other columns, load the table again.")
    _summary(dataset)
    columns.preview(dataset.frame, _PREVIEW_ROWS)


def _of_table(table: Table) -> None:
    """A table: its first rows, how it was read, its columns, and what the fit will use."""
    st.header(markdown(table.name))
    source = state.source() or state.Sample(state.DEFAULT_SAMPLE)
    if isinstance(source, state.Sample):
        st.markdown(markdown(services.sample_about(source.key)))
    ready = st.container()
    shown, read = st.columns([2, 1], gap="medium")
    with shown:
        columns.preview(table.frame, _PREVIEW_ROWS)
        rows = count(len(table.frame), "row")
        st.caption(f"The first {min(_PREVIEW_ROWS, len(table.frame))} of {rows}.")
        _notes(table.notes)
    with read:
        intake.found(table)
        if isinstance(source, Upload) and intake.has_choices(source, table):
            with st.expander("Read it in another way"):
                intake.form(source, table)
    roles = columns.editor(table, working.roles(table))
    state.set_roles(table.digest, roles)
    unused = [
        f"{listed(names, 8)} ({why})" for why, names in learning.left_out(table, roles).items()
    ]
    if unused:
        st.caption(markdown(f"Not used: {'; '.join(unused)}."))
    with ready:
        _ready(table, roles)
    closeup.profile(table, roles)
    closeup.missing_cells(table)


def _ready(table: Table, roles: Roles) -> None:
    """What the fit will use, and the way to it."""
    if not roles.features:
        st.warning("No column is used as a feature. Tick at least one.")
        return
    try:
        dataset = services.dataset_of(table, roles)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    _summary(dataset)


def _summary(dataset: Dataset) -> None:
    """The dataset in plain words, what is left out of it and why, and the way to the Fit page."""
    shape = services.shape(dataset)
    text, button = st.columns([4, 1], vertical_alignment="center")
    parts = [count(len(dataset.X), "row"), count(shape.columns, "feature")]
    if shape.further:
        classes = " and ".join(str(n) for n in (shape.classes, *shape.further))
        parts.append(f"{count(1 + len(shape.further), 'label')} with {classes} classes")
    elif dataset.label_name is not None:
        parts.append(f"label with {count(shape.classes, 'class', 'classes')}")
    held_out = int(dataset.held_out.sum())
    if held_out:
        parts.append(f"{count(held_out, 'row')} held out")
    with text:
        st.markdown(f"**{', '.join(parts)}**")
    with button:
        navigation.link("Fit a model", "fit", key="fit", stretch=True)
    notes = dataset.notes
    if shape.incomplete:
        rows = count(shape.incomplete, "row")
        notes = (
            f"{rows} with missing cells: a model that needs every cell leaves them out.",
            *notes,
        )
    _notes(notes)


def _notes(notes: tuple[str, ...]) -> None:
    with st.container(gap="xxsmall"):
        for note in notes:
            st.caption(markdown(note))


if __name__ == "__main__":  # as the navigation runs it
    page()
