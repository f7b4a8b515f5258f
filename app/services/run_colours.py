"""Colours of the rows of a run's figures, chosen by column and kept with the run."""

from __future__ import annotations

from dataclasses import replace

from app.analysis.map.row_colours import CategoryStyle, Colouring, coloured
from app.services import fitted_maps, server, tables
from app.services.caching import cached
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.export import categories
from lvmcore.export.column_colours import (
    CategoryColours,
    ColumnColours,
    read_colours,
    write_colours,
)

__all__ = ["choose_colours", "class_style", "column_colours", "row_colouring", "snapshot_style"]


def class_style(run: str, label: str | None = None) -> CategoryStyle | None:
    """Classes of the rows of a run's fit, in the colours chosen for it; None without labels.

    Args:
        run: id of the run.
        label: name of the label column; None for the first.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    found = _class_style(run, label)
    if found is None:
        return None
    chosen = column_colours(run).get(found.title)
    return replace(found, colours=chosen) if isinstance(chosen, CategoryColours) else found


def snapshot_style(run: str, label: str | None = None) -> CategoryStyle | None:
    """Classes for the maps of the steps of a run's fit; None without labels, and for rows of files.

    Of files that stay in place the dataset is a sample, and these maps have any of their rows.

    Args:
        run: id of the run.
        label: name of the label column; None for the first.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    in_place = fitted_maps.fitted_dataset(run).files is not None
    return None if in_place else class_style(run, label)


@cached(max_entries=8)
def _class_style(run: str, label: str | None) -> CategoryStyle | None:
    return categories.class_style(fitted_maps.fitted_dataset(run), label=label)


def row_colouring(run: str, dataset: Dataset, column: str) -> Colouring:
    """Colours of the rows of a dataset by a column, as chosen for a run.

    Args:
        run: id of the run.
        dataset: the rows.
        column: a label column or another column.

    Raises:
        DataError: the run does not exist.
    """
    return coloured(tables.row_colouring(dataset, column), column_colours(run).get(column))


def column_colours(run: str) -> dict[str, ColumnColours]:
    """The colours chosen for the columns of a run, by column.

    Raises:
        DataError: the run does not exist.
    """
    return read_colours(server.store().job_folder(run).files.colours)


def choose_colours(run: str, column: str, colours: ColumnColours) -> None:
    """Keep the colours of a column with a run.

    Raises:
        ConfigError: too many columns have chosen colours.
        DataError: the run does not exist, or its folder cannot be written.
    """
    path = server.store().job_folder(run).files.colours
    try:
        write_colours(path, {**read_colours(path), column: colours})
    except OSError as error:
        raise DataError(f"The colours could not be kept: {error.strerror}.") from error
