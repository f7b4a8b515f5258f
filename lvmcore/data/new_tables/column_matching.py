"""Matching of a new table's columns to the features of a model, by name."""

import difflib
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = [
    "ColumnMatching",
    "FeatureSource",
    "feature_sources",
    "match_columns",
    "normalised_name",
    "quote_names",
]

_LOG1P = re.compile(r"log\(1 \+ (.*)\)", re.DOTALL)
_LEVEL_MARK = " = "
_SEPARATORS = re.compile(r"[\s_\-]+")
_MAX_SHOWN = 8
#: Minimal similarity of a suggested name, 0 to 1.
_MIN_SIMILARITY = 0.6


@dataclass(frozen=True)
class FeatureSource:
    """The column and transform of a feature.

    Attributes:
        kind: "plain", "log1p" or "level".
        column: Name of the column in the table of the fit.
        level: The level of a one-hot feature; "" for other features.
    """

    kind: str
    column: str
    level: str = ""


@dataclass(frozen=True)
class ColumnMatching:
    """Matching of a table's columns to those that a model was fitted to.

    Attributes:
        sources: Column and transform of each of the model's features, in the model's order.
        columns: The table's column by the name of the model's column, for all that were found.
        approximate: The model's columns that were found under a name of other case or spacing.
        missing: The model's columns that were not found.
        suggestions: The unused column with the most similar name, by missing column.
        ambiguous: Several columns that match, by missing column.
        duplicated: The model's columns that occur more than once in the file; the first is used.
        unused: Columns of the table without a role.
    """

    sources: tuple[FeatureSource, ...]
    columns: Mapping[str, str]
    approximate: tuple[str, ...]
    missing: tuple[str, ...]
    suggestions: Mapping[str, str]
    ambiguous: Mapping[str, tuple[str, ...]]
    duplicated: tuple[str, ...]
    unused: tuple[str, ...]

    def notes(self) -> tuple[str, ...]:
        """Notes on approximate matches, duplicated columns, and unused columns."""
        notes = [
            f"Column {self.columns[name]!r} is taken for {name!r}: the names differ in case or "
            "spacing only."
            for name in self.approximate
        ]
        notes += [
            f"Column {name!r} occurs more than once in the file: the first is used."
            for name in self.duplicated
        ]
        if self.unused:
            shown = quote_names(self.unused)
            notes.append(f"Not used, since the model has no such features: {shown}.")
        return tuple(notes)

    def missing_note(self) -> str:
        """A note on the missing columns, for a model that accepts missing cells."""
        absent = f"Not there, so missing in every row: {quote_names(self.missing)}."
        return f"{absent} {self.suggestion_text()}".rstrip()

    def suggestion_text(self) -> str:
        """Suggested names of the missing columns, in sentences."""
        parts = [
            f"{name!r} may be called {self.suggestions[name]!r} here: rename it in the file if so."
            for name in self.missing[:_MAX_SHOWN]
            if name in self.suggestions
        ]
        parts += [
            f"{name!r} could be {' or '.join(map(repr, several))}: give one of them its exact name."
            for name, several in self.ambiguous.items()
        ]
        return " ".join(parts)

    def check_complete(self, table: str) -> None:
        """Check that no column is missing.

        Args:
            table: Name of the table, for the message.

        Raises:
            DataError: Columns are missing; the message lists them.
        """
        if self.missing:
            wanted = len(self.columns) + len(self.missing)
            columns = "column" if wanted == 1 else f"{wanted} columns"
            text = (
                f"{table!r} lacks {quote_names(self.missing)}. Expected the {columns} that the "
                f"model was fitted to, by the same names. {self.suggestion_text()}"
            )
            besides = f" Its other columns: {quote_names(self.unused)}." if self.unused else ""
            raise DataError(text.rstrip() + besides)


def match_columns(
    table: "Table",
    names: Sequence[str],
    *,
    origin: Collection[str] = (),
    others: Collection[str | None] = (),
) -> ColumnMatching:
    """Match a new table's columns to those that a model was fitted to.

    A column of exactly the same name is used, else the only one whose name differs just in case,
    spaces, underscores or hyphens. The order of the columns does not matter.

    Args:
        table: The table.
        names: Names of the model's features (`Dataset.transformed_names`).
        origin: Names of the columns of the table that the model was fitted to, if known: they
            distinguish a column named "log(1 + x)" from the transform of a column x.
        others: Columns with a role of their own, such as the label or the row id.
    """
    given = [str(name) for name in table.frame.columns]
    sources = feature_sources(names, given, origin)
    wanted = list(dict.fromkeys(source.column for source in sources))
    known = set(given)
    found = {name: name for name in wanted if name in known}
    pool = [name for name in given if name not in found and name not in others]
    approximate, ambiguous = _match_normalised([name for name in wanted if name not in found], pool)
    found |= approximate
    used = {*found.values(), *others}
    unused = tuple(name for name in given if name not in used)
    missing = tuple(name for name in wanted if name not in found)
    return ColumnMatching(
        sources=sources,
        columns={name: found[name] for name in wanted if name in found},
        approximate=tuple(approximate),
        missing=missing,
        suggestions=_suggest_names([name for name in missing if name not in ambiguous], unused),
        ambiguous=ambiguous,
        duplicated=tuple(name for name, column in found.items() if f"{column} (2)" in unused),
        unused=unused,
    )


def normalised_name(name: str) -> str:
    """A name without case, spaces, underscores and hyphens, for comparison."""
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", name).casefold())


def feature_sources(
    names: Sequence[str], known: Collection[str], origin: Collection[str] = ()
) -> tuple[FeatureSource, ...]:
    """Column and transform of each feature, parsed from its name.

    Args:
        names: Names of the features.
        known: Names of the columns of a table.
        origin: Names of the columns of the table of the fit, if known.

    Returns:
        One source a feature. If neither table has its column, the feature's name is the column.
    """
    loose = {normalised_name(name) for name in known}
    return tuple(
        _parse_source(name, lambda column: column in origin)
        or _parse_source(name, lambda column: column in known)
        or _parse_source(name, lambda column: normalised_name(column) in loose)
        or FeatureSource("plain", name)
        for name in names
    )


def _parse_source(name: str, is_column: Callable[[str], bool]) -> FeatureSource | None:
    if is_column(name):
        return FeatureSource("plain", name)
    logarithm = _LOG1P.fullmatch(name)
    if logarithm is not None and is_column(logarithm[1]):
        return FeatureSource("log1p", logarithm[1])
    for mark in re.finditer(re.escape(_LEVEL_MARK), name):
        if is_column(name[: mark.start()]):
            return FeatureSource("level", name[: mark.start()], name[mark.end() :])
    return None


def _match_normalised(
    wanted: Sequence[str], pool: Sequence[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Columns whose names differ in case or spacing, and the ambiguous ones."""
    here: dict[str, list[str]] = {}
    for column in pool:
        here.setdefault(normalised_name(column), []).append(column)
    asked = [normalised_name(name) for name in wanted]
    found, ambiguous = {}, {}
    for name, key in zip(wanted, asked, strict=True):
        several = here.get(key, [])
        if len(several) > 1:
            ambiguous[name] = tuple(several)
        elif several and asked.count(key) == 1:
            found[name] = several[0]
    return found, ambiguous


def _suggest_names(missing: Sequence[str], pool: Sequence[str]) -> dict[str, str]:
    """The most similar of the other names for each missing one, each used at most once."""
    left = {normalised_name(name): name for name in reversed(pool)}
    found = {}
    for name in missing:
        near = difflib.get_close_matches(
            normalised_name(name), list(left), n=1, cutoff=_MIN_SIMILARITY
        )
        if near:
            found[name] = left.pop(near[0])
    return found


def quote_names(names: Sequence[str]) -> str:
    """Names in quotation marks; "and 3 more" after the first eight."""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(map(repr, names[:_MAX_SHOWN])) + more
