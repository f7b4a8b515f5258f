"""Parsed tables, their profiles, and the datasets built from them."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from operator import attrgetter
from pathlib import PurePath

import pandas as pd

from app.analysis.map.row_colours import Colouring, category_style, row_colours
from app.analysis.papers.partial_tables import partial_table
from app.analysis.tables import column_profiles
from app.analysis.tables.column_profiles import ColumnProfile, MissingCells
from app.analysis.tables.histograms import small_histogram
from app.formatting import count, file_size, shortened
from app.services.caching import HashFunctions, cached
from app.state.choices import (
    DEFAULT_SAMPLE,
    FilesChoice,
    ReadingChoices,
    RoleChoices,
    SampleChoice,
    Source,
    Upload,
)
from app.web import data_folders
from lvmcore.data import (
    ColumnType,
    Dataset,
    ProposedLikelihood,
    Table,
    exclusion_reason,
    load_paper,
    load_sample,
    propose_label,
    propose_row_id,
    proposed_likelihood,
    read_table_sandboxed,
    samples,
)
from lvmcore.data.readers.sandbox import read_files_sandboxed
from lvmcore.data.samples.paper_datasets import has_paper, paper_datasets
from lvmcore.data.samples.public_datasets import public_dataset, public_names
from lvmcore.data.table_files import file_stamp, files_name
from lvmcore.data.transforms import MAX_LEVELS, levels
from lvmcore.errors import DataError
from lvmcore.recommend.latent_models import TableSummary, summarise

__all__ = [
    "FEATURE_TYPES",
    "category_levels",
    "column_profile",
    "dataset_of",
    "files_choice",
    "has_paper_table",
    "histograms",
    "missing_cells",
    "offers_files",
    "paper_table",
    "paper_titles",
    "proposed_likelihoods",
    "proposed_roles",
    "row_colouring",
    "sample_dataset",
    "sample_description",
    "sample_titles",
    "table",
    "table_summary",
]

#: Histograms and missing cells of a table do not depend on the types of its columns.
_BY_CELLS: HashFunctions = {Table: attrgetter("digest")}

#: Types of columns that are features by default.
FEATURE_TYPES = ("numeric", "count", "binary")


def sample_titles() -> dict[str, str]:
    """Titles of the bundled samples by key."""
    return {key: f"{sample.title} ({sample.rows} rows)" for key, sample in samples().items()}


def paper_titles() -> dict[str, str]:
    """Titles of the papers' datasets by name: those on this machine, then those to fetch."""
    known = paper_datasets().values()
    here = {
        one.name: f"{one.title} ({count(one.rows, 'row')})" for one in known if has_paper(one.name)
    }
    elsewhere = {
        one.name: f"{one.title} ({count(one.rows, 'row')}), "
        f"{file_size(public_dataset(one.name).bytes)} to fetch"
        for one in known
        if one.name in public_names() and one.name not in here
    }
    return here | elsewhere


def sample_description(key: str) -> str:
    """Description of a sample or of a dataset of the papers, one line."""
    return samples()[key].about if key in samples() else paper_datasets()[key].about


def table(source: Source, reading: ReadingChoices) -> Table:
    """The parsed table of a source.

    Raises:
        DataError: the file cannot be read with these options.
    """
    if isinstance(source, SampleChoice):
        return _sample(source.key) if source.key in samples() else _paper_table(source.key)
    if isinstance(source, FilesChoice):
        return _registered(source, reading)
    return _uploaded(source, reading)


@cached(max_entries=8, depends_on_store=False)
def _sample(key: str) -> Table:
    return load_sample(key)


def has_paper_table(key: str) -> bool:
    """Whether a sample or a dataset of the papers is on this machine."""
    return key in samples() or has_paper(key)


@cached(max_entries=2, spinner="Reading the table", depends_on_store=False)
def _paper_table(key: str) -> Table:
    return load_sample(key) if key in samples() else load_paper(key)


@cached(max_entries=8, spinner="Reading the table", depends_on_store=False)
def paper_table(key: str, *, rows: int = 0, hidden: float = 0.0) -> Table:
    """A sample or a dataset of the papers, or a part of it; see ``partial_table``.

    Args:
        key: of the sample, or name of the dataset.
        rows: number of rows drawn at random; 0 for all.
        hidden: share of the cells that are hidden at random.

    Raises:
        DataError: the dataset is not on this machine.
    """
    return partial_table(_paper_table(key), rows=rows, hidden=hidden)


@cached(max_entries=4, spinner="Reading the table", depends_on_store=False)
def _uploaded(upload: Upload, reading: ReadingChoices) -> Table:
    how = asdict(reading)
    if reading.column_decimals is not None:
        how["column_decimals"] = dict(reading.column_decimals)
    return read_table_sandboxed(upload.content, name=_title(upload.name), **how)


@cached(max_entries=4, spinner="Reading a sample of the files", depends_on_store=False)
def _registered(files: FilesChoice, reading: ReadingChoices) -> Table:
    how = asdict(reading)
    if reading.column_decimals is not None:
        how["column_decimals"] = dict(reading.column_decimals)
    return read_files_sandboxed(files.paths, name=files.name, **how)


def offers_files() -> bool:
    """Whether files of the server's machine can be registered in place."""
    return data_folders.offers_files()


def files_choice(text: str) -> FilesChoice:
    """The files that a person named by their paths, one a line.

    Raises:
        DataError: a path does not exist, or this server may not read it.
    """
    sources = [line.strip() for line in text.splitlines() if line.strip()]
    if not sources:
        raise DataError("No path was given: expected a file, or a folder of files.")
    paths = data_folders.allowed_files(sources)
    digest = hashlib.sha256()
    for path in paths:
        digest.update(repr(file_stamp(path)).encode())
    return FilesChoice(files_name(sources), digest.hexdigest(), tuple(map(str, paths)))


def _title(filename: str) -> str:
    """A file's name without its folder and extensions."""
    name = PurePath(filename).name
    return name.split(".", 1)[0] or name


def proposed_roles(table: Table) -> RoleChoices:
    """Proposed roles of the columns of a table."""
    label, row_id = propose_label(table), propose_row_id(table)
    features = tuple(
        column.name
        for column in table.columns
        if exclusion_reason(column) is None and column.name not in (label, row_id)
    )
    categories = tuple(column.name for column in table.columns if column.type == "category")
    return RoleChoices(features, label, row_id, one_hot=categories)


@cached(max_entries=8, depends_on_store=False)
def dataset_of(table: Table, roles: RoleChoices) -> Dataset:
    """The dataset of a table: the numeric matrix, labels and names that models take.

    Raises:
        DataError: a column cannot have its role.
    """
    return table.dataset(
        features=roles.features,
        label=roles.labels,
        row_id=roles.row_id,
        log1p=[name for name in roles.log1p if name in roles.features],
        one_hot=[name for name in roles.one_hot if name in roles.features],
        likelihoods={
            name: likelihood
            for name, likelihood in (*_by_type(table), *roles.likelihoods)
            if name in roles.features and name not in roles.log1p
        },
        hold_out=roles.hold_out,
    )


@cached(max_entries=8, depends_on_store=False)
def proposed_likelihoods(table: Table) -> dict[str, ProposedLikelihood]:
    """The likelihood proposed for each column that can be a feature, by name."""
    return {
        column.name: proposed_likelihood(table, column)
        for column in table.columns
        if column.type in FEATURE_TYPES or column.type is ColumnType.CATEGORY
    }


@cached(max_entries=8, depends_on_store=False)
def category_levels(table: Table) -> dict[str, tuple[str, ...]]:
    """The levels of each category that can be one-hot features, in the proposed order, by name."""
    return {
        column.name: tuple(levels(table.frame[column.name]))
        for column in table.columns
        if column.type is ColumnType.CATEGORY and 2 <= column.distinct <= MAX_LEVELS
    }


def _by_type(table: Table) -> list[tuple[str, str]]:
    """Columns whose likelihood follows from a type that was chosen against their cells."""
    proposed = proposed_likelihoods(table).items()
    return [(name, found.name) for name, found in proposed if found.by_type]


@cached(max_entries=4, depends_on_store=False)
def row_names(dataset: Dataset) -> bytes:
    """Names of the rows of a dataset, UTF-8, a line each."""
    return "\n".join(" ".join(shortened(name, 60).split()) for name in dataset.row_ids).encode()


@cached(max_entries=64, depends_on_store=False)
def table_summary(dataset: Dataset) -> TableSummary:
    """Summary of a dataset for the recommendation of a model."""
    return summarise(dataset)


@cached(max_entries=8, depends_on_store=False, hash_funcs=_BY_CELLS)
def histograms(table: Table) -> list[list[float]]:
    """A small histogram of each column, in the table's order: shares of its cells."""
    return [small_histogram(table.frame[column.name]) for column in table.columns]


@cached(max_entries=64, depends_on_store=False)
def column_profile(table: Table, name: str, *, log1p: bool) -> ColumnProfile:
    """Profile of a column; its histogram is of log(1 + x) with ``log1p``."""
    return column_profiles.column_profile(table, name, log1p=log1p)


@cached(max_entries=8, depends_on_store=False, hash_funcs=_BY_CELLS)
def missing_cells(table: Table) -> MissingCells | None:
    """Missing cells of a table by row and column; None without any."""
    return column_profiles.missing_cells(table)


def sample_dataset() -> Dataset:
    """The dataset of the default sample, with the proposed roles."""
    sample = table(SampleChoice(DEFAULT_SAMPLE), ReadingChoices())
    return dataset_of(sample, proposed_roles(sample))


@cached(max_entries=32, depends_on_store=False)
def row_colouring(dataset: Dataset, name: str) -> Colouring:
    """Colours of the rows of a dataset by a label column or another column."""
    labels = dataset.label_columns.get(name)
    if labels is not None:
        return category_style(pd.Series(labels, dtype=object), name)
    return row_colours(dataset.frame[name], name)
