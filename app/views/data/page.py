"""Data: load a table or a sample, check how it is read, and choose the columns of the fit."""

from __future__ import annotations

import streamlit as st

from app import navigation
from app.analysis.tables.row_counts import rows_in_words
from app.components import current_dataset
from app.components.number_choices import number_choices
from app.components.table_upload import (
    choose_files,
    choose_table,
    detected_format,
    has_reading_choices,
    read_source,
    reading_form,
)
from app.formatting import count, listed, markdown
from app.services import tables
from app.shell.tour import tour_offer
from app.state import choices
from app.state.choices import FilesChoice, RoleChoices, Upload
from app.state.session import session
from app.views.data import column_roles
from app.views.data.column_editor import column_editor, record_choices, table_preview
from app.views.data.column_profile import column_profile_panel, missing_cells_panel
from app.views.data.row_pictures import row_pictures
from lvmcore.data import Dataset, Table
from lvmcore.errors import LatentboardError

_PREVIEW_ROWS = 8


def page() -> None:
    """Draw the page."""
    st.title("Data")
    tour_offer()
    choose_table()
    choose_files("data", read_source)
    failed = session.failed_source
    if failed is not None:
        st.error(markdown(failed.message))
        if has_reading_choices(failed.upload, None):
            with st.expander("Change how it is read", expanded=True):
                reading_form(failed.upload, None)
        st.caption("The data below are the previous ones.")
    try:
        if current_dataset.uses_run_data():
            _run_data(current_dataset.dataset())
        else:
            _table_data(current_dataset.table())
    except LatentboardError as error:
        st.error(markdown(error))


def _run_data(dataset: Dataset) -> None:
    """The dataset of the open run, which cannot be changed."""
    st.header(markdown(dataset.name))
    st.markdown("These are the data of the open run. To use other columns, load the table again.")
    _summary(dataset)
    table_preview(dataset.frame, _PREVIEW_ROWS)
    row_pictures(dataset)


def _table_data(table: Table) -> None:
    """A table: its first rows, detected format and columns, and the dataset of the fit."""
    st.header(markdown(table.name))
    source = session.source or choices.SampleChoice(choices.DEFAULT_SAMPLE)
    if isinstance(source, choices.SampleChoice):
        st.markdown(markdown(tables.sample_description(source.key)))
    summary = st.container()
    open_notes = {question.note for question in table.questions if not question.chosen}
    if isinstance(source, Upload | FilesChoice):
        number_choices(source, table, session.reading, read_source)
    preview, detected = st.columns([2, 1], gap="medium")
    with preview:
        table_preview(table.frame, _PREVIEW_ROWS)
        rows = count(len(table.frame), "row")
        st.caption(f"The first {min(_PREVIEW_ROWS, len(table.frame))} of {rows}.")
        _notes(tuple(note for note in table.notes if note not in open_notes))
    with detected:
        detected_format(table)
        if isinstance(source, Upload | FilesChoice) and has_reading_choices(source, table):
            with st.expander("Change how it is read"):
                reading_form(source, table)
    roles = column_editor(table, current_dataset.roles(table))
    session.role_choices[table.digest] = roles
    record_choices(table, roles)
    with summary:
        dataset = _dataset_summary(table, roles)
        _columns_left_out(table, roles)
    if dataset is not None:
        with detected:
            row_pictures(dataset)
    column_profile_panel(table, roles)
    missing_cells_panel(table)


def _dataset_summary(table: Table, roles: RoleChoices) -> Dataset | None:
    """The dataset of the fit, with a link to the Fit page; None where there is none."""
    if not roles.features:
        st.warning("No column is used as a feature. Tick at least one.")
        return None
    try:
        dataset = tables.dataset_of(table, roles)
    except LatentboardError as error:
        st.error(markdown(error))
        return None
    _summary(dataset, table.notes)
    return dataset


def _columns_left_out(table: Table, roles: RoleChoices) -> None:
    """The columns that are no features, with the reasons."""
    unused = [
        f"{listed(names, 8)} ({reason})"
        for reason, names in column_roles.columns_left_out(table, roles).items()
    ]
    if unused:
        st.caption(markdown(f"Not used: {'; '.join(unused)}."))


def _summary(dataset: Dataset, known: tuple[str, ...] = ()) -> None:
    """The size of the dataset, its notes that are not known, and a link to the Fit page."""
    shape = tables.table_summary(dataset)
    text, button = st.columns([4, 1], vertical_alignment="center")
    parts = [rows_in_words(dataset), count(shape.columns, "feature")]
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
    notes = tuple(note for note in dataset.notes if note not in known)
    if shape.incomplete:
        rows = count(shape.incomplete, "row")
        notes = (
            f"{rows} with missing cells: models that need every cell leave them out.",
            *notes,
        )
    _notes(notes)


def _notes(notes: tuple[str, ...]) -> None:
    with st.container(gap="xxsmall"):
        for note in notes:
            st.caption(markdown(note))


if __name__ == "__main__":  # as the navigation runs it
    page()
