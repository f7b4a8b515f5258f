"""Which columns of another table are those that a model was fitted to: by name, never by place."""

import difflib
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["Matching", "Source", "folded", "match_columns", "quoted", "sources_of"]

_LOG1P = re.compile(r"log\(1 \+ (.*)\)", re.DOTALL)
_LEVEL = " = "
_SEPARATORS = re.compile(r"[\s_\-]+")
_NAMED = 8
#: How alike a name must be to be suggested, 0 to 1.
_NEAR = 0.6


@dataclass(frozen=True)
class Source:
    """What a feature is made of.

    Attributes:
        kind: "plain", "log1p" or "level".
        column: Name of the column, as the model knows it.
        level: The level that the feature stands for; "" where it is none.
    """

    kind: str
    column: str
    level: str = ""


@dataclass(frozen=True)
class Matching:
    """How the columns of a table meet those that a model was fitted to.

    Attributes:
        sources: What each of the model's features is made of, in the model's order.
        columns: The table's column for each of the model's columns that is there, by its name.
        alike: The model's columns that were found under a name of other case or spacing.
        missing: The model's columns that are not there.
        nearest: For a missing column, the unused column whose name is nearest, where one is near.
        ambiguous: For a missing column, several columns that it could be.
        twice: The model's columns that stand in the file more than once; the first is used.
        ignored: Columns of the table that nothing uses.
    """

    sources: tuple[Source, ...]
    columns: Mapping[str, str]
    alike: tuple[str, ...]
    missing: tuple[str, ...]
    nearest: Mapping[str, str]
    ambiguous: Mapping[str, tuple[str, ...]]
    twice: tuple[str, ...]
    ignored: tuple[str, ...]

    def notes(self) -> tuple[str, ...]:
        """What was matched by a looser rule, twice there, or not used, in plain words."""
        notes = [
            f"Column {self.columns[name]!r} is taken for {name!r}: the names differ in case or "
            "spacing only."
            for name in self.alike
        ]
        notes += [
            f"Column {name!r} stands in the file more than once: the first is used."
            for name in self.twice
        ]
        if self.ignored:
            notes.append(f"Not used, as the model does not know them: {quoted(self.ignored)}.")
        return tuple(notes)

    def missing_note(self) -> str:
        """What it means that columns are not there, for a model that takes missing cells."""
        text = f"Not there, so missing in every row: {quoted(self.missing)}. {self.hints()}"
        return text.rstrip()

    def hints(self) -> str:
        """What the missing columns may be called here, in plain words."""
        parts = [
            f"{name!r} may be called {self.nearest[name]!r} here: rename it in the file if so."
            for name in self.missing[:_NAMED]
            if name in self.nearest
        ]
        parts += [
            f"{name!r} could be {' or '.join(map(repr, several))}: give one of them its exact name."
            for name, several in self.ambiguous.items()
        ]
        return " ".join(parts)

    def refuse_missing(self, table: str) -> None:
        """Refuse a table that lacks a column.

        Args:
            table: What the table is called.

        Raises:
            DataError: A column is not there; the message names all that are not.
        """
        if self.missing:
            wanted = len(self.columns) + len(self.missing)
            columns = "column" if wanted == 1 else f"{wanted} columns"
            text = (
                f"{table!r} lacks {quoted(self.missing)}. Expected the {columns} that the model "
                f"was fitted to, by the same names. {self.hints()}"
            )
            besides = f" It has besides: {quoted(self.ignored)}." if self.ignored else ""
            raise DataError(text.rstrip() + besides)


def match_columns(
    table: "Table",
    names: Sequence[str],
    *,
    origin: Collection[str] = (),
    others: Collection[str | None] = (),
) -> Matching:
    """Find the columns that a model was fitted to in another table.

    A name that is there exactly comes first; else one that differs in case, spaces, underscores
    or hyphens only, if there is just one such column. Columns may stand in any order.

    Args:
        table: The table.
        names: Names of the model's features (`Dataset.learned_names`).
        origin: Names of the columns of the table that the model was fitted to, where it is known:
            they tell "log(1 + x)" the name from the logarithm of x.
        others: Columns with a role of their own, such as the label or the row id.
    """
    given = [str(name) for name in table.frame.columns]
    sources = sources_of(names, given, origin)
    wanted = list(dict.fromkeys(source.column for source in sources))
    known = set(given)
    found = {name: name for name in wanted if name in known}
    pool = [name for name in given if name not in found and name not in others]
    alike, ambiguous = _alike([name for name in wanted if name not in found], pool)
    found |= alike
    used = {*found.values(), *others}
    ignored = tuple(name for name in given if name not in used)
    missing = tuple(name for name in wanted if name not in found)
    return Matching(
        sources=sources,
        columns={name: found[name] for name in wanted if name in found},
        alike=tuple(alike),
        missing=missing,
        nearest=_nearest([name for name in missing if name not in ambiguous], ignored),
        ambiguous=ambiguous,
        twice=tuple(name for name, column in found.items() if f"{column} (2)" in ignored),
        ignored=ignored,
    )


def folded(name: str) -> str:
    """A name without what people write differently: case, spaces, underscores and hyphens."""
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", name).casefold())


def sources_of(
    names: Sequence[str], known: Collection[str], origin: Collection[str] = ()
) -> tuple[Source, ...]:
    """What features are made of.

    Args:
        names: Of the features.
        known: Names of the columns of a table.
        origin: Names of the columns of the table that the features were made of, where known.

    Returns:
        One source a feature. Where neither knows its column, the feature's name stands for it.
    """
    loose = {folded(name) for name in known}
    return tuple(
        _source(name, lambda column: column in origin)
        or _source(name, lambda column: column in known)
        or _source(name, lambda column: folded(column) in loose)
        or Source("plain", name)
        for name in names
    )


def _source(name: str, is_column: Callable[[str], bool]) -> Source | None:
    if is_column(name):
        return Source("plain", name)
    logarithm = _LOG1P.fullmatch(name)
    if logarithm is not None and is_column(logarithm[1]):
        return Source("log1p", logarithm[1])
    for mark in re.finditer(re.escape(_LEVEL), name):
        if is_column(name[: mark.start()]):
            return Source("level", name[: mark.start()], name[mark.end() :])
    return None


def _alike(
    wanted: Sequence[str], pool: Sequence[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Columns under names that differ in case or spacing, and those that could be several."""
    here: dict[str, list[str]] = {}
    for column in pool:
        here.setdefault(folded(column), []).append(column)
    asked = [folded(name) for name in wanted]
    found, ambiguous = {}, {}
    for name, key in zip(wanted, asked, strict=True):
        several = here.get(key, [])
        if len(several) > 1:
            ambiguous[name] = tuple(several)
        elif several and asked.count(key) == 1:
            found[name] = several[0]
    return found, ambiguous


def _nearest(missing: Sequence[str], pool: Sequence[str]) -> dict[str, str]:
    """For each missing name the nearest of the others, each of these at most once."""
    left = {folded(name): name for name in reversed(pool)}
    found = {}
    for name in missing:
        near = difflib.get_close_matches(folded(name), list(left), n=1, cutoff=_NEAR)
        if near:
            found[name] = left.pop(near[0])
    return found


def quoted(names: Sequence[str]) -> str:
    """Names in quotation marks, "and 3 more" after the first eight."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more
