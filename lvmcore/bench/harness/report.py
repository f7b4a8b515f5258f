"""Rows of a benchmark: measurement, storage in a JSON file, and tables with the references."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lvmcore.bench.harness import machine
from lvmcore.errors import DataError
from lvmcore.persistence import write_atomically

__all__ = [
    "BenchmarkRow",
    "MeasuredRow",
    "Measurements",
    "Options",
    "Report",
    "RowMaker",
    "commit_label",
    "measured_here",
    "row_or_error",
]

RowMaker = Callable[[], "BenchmarkRow"]


@dataclass(frozen=True)
class Options:
    """Options of a benchmark: ``full`` selects the papers' longer protocols."""

    full: bool = False


@dataclass(frozen=True)
class BenchmarkRow:
    """A measured quantity.

    Attributes:
        name: description of the quantity.
        value: its value (a mean or a median, as ``name`` says).
        unit: its unit; empty for a share.
        spread: standard deviation over folds or repeats; None for a single value.
        reference: the value it is compared with, and its source.
        floor: smallest acceptable value; None for no limit.
        ceiling: largest acceptable value; None for no limit.
        settings: settings of the measurement.
    """

    name: str
    value: float
    unit: str = ""
    spread: float | None = None
    reference: str = ""
    floor: float | None = None
    ceiling: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Whether the value is within its limits; None without limits."""
        if self.floor is None and self.ceiling is None:
            return None
        above = self.floor is None or self.value >= self.floor
        return above and (self.ceiling is None or self.value <= self.ceiling)

    def shown(self) -> str:
        """The value with its spread and unit, as text."""
        if self.unit in ("", "s"):
            decimals = 3
        elif self.spread:  # two digits of it, and the value to the same place
            decimals = max(0, 1 - math.floor(math.log10(self.spread)))
        else:
            return f"{self.value:.3g} {self.unit}"
        spread = "" if self.spread is None else f" ± {self.spread:.{decimals}f}"
        return f"{self.value:.{decimals}f}{spread} {self.unit}".rstrip()

    def asked(self) -> str:
        """The limits, as text."""
        parts = [] if self.floor is None else [f"at least {self.floor:g}"]
        parts += [] if self.ceiling is None else [f"at most {self.ceiling:g}"]
        return " and ".join(parts)


@dataclass(frozen=True)
class MeasuredRow:
    """A row, and where it was measured.

    Attributes:
        row: the row; an error where the data are not on that machine.
        machine: facts of the machine.
        commit: the checked-out commit there.
    """

    row: BenchmarkRow | DataError
    machine: dict[str, Any]
    commit: str


#: Measures rows, and gives each with its measurement, in any order.
Measurements = Callable[[Sequence[RowMaker]], Iterator[tuple[RowMaker, MeasuredRow]]]


def measured_here(makers: Sequence[RowMaker]) -> Iterator[tuple[RowMaker, MeasuredRow]]:
    """Measure rows on this machine, one after the other.

    Args:
        makers: of the rows.
    """
    facts, commit = machine.describe_machine(), machine.commit_hash()
    for maker in makers:
        yield maker, MeasuredRow(row_or_error(maker), facts, commit)


def row_or_error(maker: RowMaker) -> BenchmarkRow | DataError:
    """Measure a row; the error where its data are not on this machine.

    Args:
        maker: of the row.
    """
    try:
        return maker()
    except DataError as error:
        return error


class Report:
    """The rows of one run, stored in a JSON file after each measurement."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: list[tuple[str, BenchmarkRow]] = []
        self.commits: list[str] = []  # of the rows, as the table prints them
        self.machine = machine.describe_machine()
        self.console = Console(highlight=False)
        self.kept: dict[str, Any] = {}
        if path is not None and path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["machine"]["latentboard"] == self.machine["latentboard"]:
                self.kept = {f"{row['bench']}: {row['key']}": row for row in stored["rows"]}

    def measure(
        self, bench: str, makers: Iterator[RowMaker], measurements: Measurements = measured_here
    ) -> None:
        """Take each row from those stored, if its protocol is the same, or measure it.

        A row whose data are not on the machine is left out with a message.

        Args:
            bench: name of the benchmark.
            makers: of its rows.
            measurements: measures rows.
        """
        wanted = list(makers)
        missing = []
        for maker in wanted:
            known = self.kept.get(f"{bench}: {_key(maker)}")
            if known is None or known.get("protocol") != _protocol(maker):
                missing.append(maker)
            else:
                fields = {name: known[name] for name in BenchmarkRow.__dataclass_fields__}
                self._add(bench, BenchmarkRow(**fields), known)
        for maker, found in measurements(missing) if missing else ():
            key, row = _key(maker), found.row
            if isinstance(row, DataError):
                self.console.print(f"{bench}: {key}: left out. {row}")
                continue
            own = {"bench": bench, "key": key, "protocol": _protocol(maker)}
            provenance = {"machine": _machine_text(found.machine), "commit": found.commit}
            known = {**own, **asdict(row), **provenance}
            self.kept[f"{bench}: {key}"] = known
            self._add(bench, row, known)

    def _add(self, bench: str, row: BenchmarkRow, known: dict[str, Any]) -> None:
        """Add a row to the table, print it, and store all."""
        self.rows.append((bench, row))
        self.commits.append(commit_label(known))
        self.console.print(f"{bench}: {row.name}: {row.shown()}")
        self._write()

    def finish(self) -> int:
        """Print the table; return 0 if every limit is met, else 1."""
        table = Table(title="Measured values and references")
        for heading in ("benchmark", "figure", "ours", "asked", "reference", "commit"):
            table.add_column(heading)
        for (bench, row), commit in zip(self.rows, self.commits, strict=True):
            style = {True: "green", False: "bold red", None: ""}[row.holds]
            ours, reference = Text(row.shown(), style), Text(row.reference)
            table.add_row(bench, Text(row.name), ours, row.asked(), reference, commit)
        self.console.print(table)
        self.console.print(_machine_text(self.machine))
        return int(any(row.holds is False for _, row in self.rows))

    def _write(self) -> None:
        if self.path is not None:
            content = {"machine": self.machine, "rows": list(self.kept.values())}
            write_atomically(self.path, json.dumps(content, indent=1).encode() + b"\n")


def commit_label(stored: Mapping[str, Any]) -> str:
    """The commit at which a stored row was measured, as text.

    Args:
        stored: a row of the JSON file; rows of earlier versions have no ``commit``.
    """
    return str(stored.get("commit") or "commit not recorded")


def _machine_text(facts: Mapping[str, Any]) -> str:
    """Machine and versions in one line."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _protocol(maker: Callable[[], BenchmarkRow]) -> str:
    """Digest of the module that measures a row; rows of another digest are measured again."""
    module = inspect.getmodule(getattr(maker, "func", maker))
    assert module is not None
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:16]


def _key(maker: Callable[[], BenchmarkRow]) -> str:
    """Key of a row in its benchmark: the function and its arguments."""
    function = getattr(maker, "func", maker)
    arguments = [*getattr(maker, "args", ()), *getattr(maker, "keywords", {}).values()]
    return " ".join([function.__name__.strip("_"), *map(str, arguments)])
