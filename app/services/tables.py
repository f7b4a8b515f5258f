"""Tables as they are read, and the datasets made of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePath

import pandas as pd
import streamlit as st

from app import profiles
from app.colouring import Colouring, categories, colouring
from app.histogram import histogram
from app.profiles import Missing, Profile
from app.state import DEFAULT_SAMPLE, Reading, Roles, Sample, Source
from lvmcore.data import (
    Dataset,
    Table,
    load_sample,
    propose_label,
    propose_row_id,
    read_table_limited,
    samples,
    why_left_out,
)
from lvmcore.runs.proposal import Shape, shape_of

__all__ = [
    "FEATURE_TYPES",
    "colours",
    "dataset_of",
    "histograms",
    "missing",
    "profile",
    "proposed_roles",
    "sample_about",
    "sample_dataset",
    "sample_titles",
    "shape",
    "table",
]

#: Types of columns that a fit learns from unless somebody says otherwise.
FEATURE_TYPES = ("numeric", "count", "binary")


def sample_titles() -> dict[str, str]:
    """Titles of the samples that the package brings along, by key."""
    return {key: f"{sample.title} ({sample.rows} rows)" for key, sample in samples().items()}


def sample_about(key: str) -> str:
    """One plain line on what a sample is."""
    return samples()[key].about


def table(source: Source, reading: Reading) -> Table:
    """The table of a source.

    Raises:
        DataError: it cannot be read, or not in that way.
    """
    if isinstance(source, Sample):
        return _sample(source.key)
    return _uploaded(source.digest, source.name, reading, source.content)


@st.cache_resource(show_spinner=False, max_entries=8)
def _sample(key: str) -> Table:
    return load_sample(key)


@st.cache_resource(show_spinner="Reading the table", max_entries=4)
def _uploaded(digest: str, name: str, reading: Reading, _content: bytes) -> Table:
    del digest  # the cache's key: the content itself is too long to be hashed at every rerun
    return read_table_limited(_content, name=_title(name), **asdict(reading))


def _title(filename: str) -> str:
    """A file's name without its folder and endings."""
    name = PurePath(filename).name
    return name.split(".", 1)[0] or name


def proposed_roles(table: Table) -> Roles:
    """What the columns of a table would be used for."""
    label, row_id = propose_label(table), propose_row_id(table)
    features = tuple(
        column.name
        for column in table.columns
        if why_left_out(column) is None and column.name not in (label, row_id)
    )
    categories = tuple(column.name for column in table.columns if column.type == "category")
    return Roles(features, label, row_id, one_hot=categories)


def dataset_of(table: Table, roles: Roles) -> Dataset:
    """The matrix that models are fitted to.

    Raises:
        DataError: a column cannot be used as asked.
    """
    types = tuple(str(column.type) for column in table.columns)
    return _dataset(table.digest, table.name, types, roles, table)


@st.cache_resource(show_spinner=False, max_entries=8)
def _dataset(
    digest: str, name: str, types: tuple[str, ...], roles: Roles, _table: Table
) -> Dataset:
    del digest, name, types  # the cache's key
    return _table.dataset(
        features=roles.features,
        label=roles.labels,
        row_id=roles.row_id,
        log1p=[name for name in roles.log1p if name in roles.features],
        one_hot=[name for name in roles.one_hot if name in roles.features],
        hold_out=roles.hold_out,
    )


def shape(dataset: Dataset) -> Shape:
    """What matters of a dataset for the choice of a model."""
    return _shape(dataset.digest, dataset)


@st.cache_data(show_spinner=False, max_entries=64)
def _shape(digest: str, _dataset: Dataset) -> Shape:
    del digest  # the cache's key
    return shape_of(_dataset)


def histograms(table: Table) -> list[list[float]]:
    """A tiny histogram of each column, in the table's order: shares of its cells."""
    return _histograms(table.digest, table)


@st.cache_data(show_spinner=False, max_entries=8)
def _histograms(digest: str, _table: Table) -> list[list[float]]:
    del digest  # the cache's key
    return [histogram(_table.frame[column.name]) for column in _table.columns]


def profile(table: Table, name: str, *, log1p: bool) -> Profile:
    """What a column of a table holds; with its histogram on the scale of log(1 + x) if asked."""
    return _profile(table.digest, name, str(table.column(name).type), log1p, table)


@st.cache_data(show_spinner=False, max_entries=64)
def _profile(digest: str, name: str, kind: str, log1p: bool, _table: Table) -> Profile:
    del digest, kind  # the cache's key
    return profiles.profile(_table, name, log1p=log1p)


def missing(table: Table) -> Missing | None:
    """Where cells of a table are missing; None where none is."""
    return _missing(table.digest, table)


@st.cache_data(show_spinner=False, max_entries=8)
def _missing(digest: str, _table: Table) -> Missing | None:
    del digest  # the cache's key
    return profiles.missing(_table)


def sample_dataset() -> Dataset:
    """The first sample, its columns used as proposed."""
    sample = table(Sample(DEFAULT_SAMPLE), Reading())
    return dataset_of(sample, proposed_roles(sample))


def colours(dataset: Dataset, name: str) -> Colouring:
    """How to colour the rows of a dataset by one of its label columns, or by a column."""
    return _colours(dataset, dataset.digest, name)


@st.cache_resource(show_spinner=False, max_entries=32)
def _colours(_dataset: Dataset, digest: str, name: str) -> Colouring:
    del digest  # the cache's key, with the name
    labels = _dataset.label_columns.get(name)
    if labels is not None:
        return categories(pd.Series(labels, dtype=object), name)
    return colouring(_dataset.frame[name], name)
