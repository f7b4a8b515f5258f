"""The current table of the session, and its dataset."""

from __future__ import annotations

from app.services import fitted_maps, runs, tables
from app.state import choices
from app.state.session import session
from lvmcore.data import Dataset, Table
from lvmcore.errors import LatentboardError

__all__ = ["PROBLEMS", "dataset", "roles", "table", "uses_run_data"]

#: Errors of the user's data or settings; their messages are for the user.
PROBLEMS = LatentboardError


def uses_run_data() -> bool:
    """Whether the current dataset is that of the open run: no table was chosen."""
    return session.source is None and runs.job(session.run_id) is not None


def table() -> Table:
    """The chosen table, or else the default sample, with the chosen or proposed column types.

    Raises:
        DataError: the table cannot be read.
    """
    source = session.source or choices.SampleChoice(choices.DEFAULT_SAMPLE)
    read = tables.table(source, session.reading)
    return read.with_types(dict(session.type_choices[read.digest].chosen))


def roles(table: Table) -> choices.RoleChoices:
    """The chosen or proposed roles of the columns of a table."""
    return session.role_choices[table.digest] or tables.proposed_roles(table)


def dataset() -> Dataset:
    """The current dataset.

    Raises:
        DataError: the table cannot be read or used with its roles, or the data of the run were
            deleted.
    """
    job = runs.job(session.run_id) if session.source is None else None
    if job is not None:
        return fitted_maps.stored_dataset(job.spec.dataset)
    read = table()
    return tables.dataset_of(read, roles(read))
