"""What the session is working on: its table, and the dataset made of it."""

from __future__ import annotations

from app import services, state
from lvmcore.data import Dataset, Table
from lvmcore.errors import LatentboardError

__all__ = ["PROBLEMS", "dataset", "following", "roles", "table"]

#: What can go wrong with the user's data or settings; the text is for the user.
PROBLEMS = LatentboardError


def following() -> bool:
    """Whether the session's data are those of the open run, as nobody chose a table here."""
    return state.source() is None and services.job(state.run_id()) is not None


def table() -> Table:
    """The session's table: the chosen one, or else the sample that a first visit finds.

    Its column types are those that were chosen here, and the proposed ones otherwise.

    Raises:
        DataError: it cannot be read.
    """
    source = state.source() or state.Sample(state.DEFAULT_SAMPLE)
    read = services.table(source, state.reading())
    return read.with_types(dict(state.types(read.digest).chosen))


def roles(table: Table) -> state.Roles:
    """What the columns of the session's table are used for: as chosen, or else as proposed."""
    return state.roles(table.digest) or services.proposed_roles(table)


def dataset() -> Dataset:
    """The session's dataset.

    Raises:
        DataError: the table cannot be read, or not used as asked; or the run's data are gone.
    """
    job = services.job(state.run_id()) if state.source() is None else None
    if job is not None:
        return services.stored_dataset(job.spec.dataset)
    read = table()
    return services.dataset_of(read, roles(read))
