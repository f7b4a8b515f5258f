"""Rows of a benchmark: measured, kept, printed beside their reference."""

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

from lvmcore.bench import machine
from lvmcore.errors import DataError
from lvmcore.persistence import write_atomically

__all__ = ["Options", "Report", "Row", "markdown"]


@dataclass(frozen=True)
class Options:
    """How to run a benchmark: ``full`` asks for the papers' own, longer protocols."""

    full: bool = False


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        name: what was measured.
        value: the figure (a mean or a median, as ``name`` says).
        unit: its unit; empty for a share.
        spread: standard deviation over folds or repeats; None where there is one value.
        reference: the figure it is compared with, and whose it is.
        floor: smallest value that will do; None where there is none.
        ceiling: largest value that will do; None where there is none.
        settings: what it was measured with.
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
        """Whether the figure is good enough; None where nothing is asked of it."""
        if self.floor is None and self.ceiling is None:
            return None
        above = self.floor is None or self.value >= self.floor
        return above and (self.ceiling is None or self.value <= self.ceiling)

    def shown(self) -> str:
        """The figure as text."""
        if self.unit in ("", "s"):
            decimals = 3
        elif self.spread:  # two digits of it, and the value to the same place
            decimals = max(0, 1 - math.floor(math.log10(self.spread)))
        else:
            return f"{self.value:.3g} {self.unit}"
        spread = "" if self.spread is None else f" ± {self.spread:.{decimals}f}"
        return f"{self.value:.{decimals}f}{spread} {self.unit}".rstrip()

    def asked(self) -> str:
        """What is asked of it, as text."""
        parts = [] if self.floor is None else [f"at least {self.floor:g}"]
        parts += [] if self.ceiling is None else [f"at most {self.ceiling:g}"]
        return " and ".join(parts)


class Report:
    """The rows of one call, kept in a JSON file as they come."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: list[tuple[str, Row]] = []
        self.machine = machine.describe()
        self.console = Console(highlight=False)
        self.kept: dict[str, Any] = {}
        if path is not None and path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["machine"]["latentboard"] == self.machine["latentboard"]:
                self.kept = {f"{row['bench']}: {row['key']}": row for row in stored["rows"]}

    def measure(self, bench: str, makers: Iterator[Callable[[], Row]]) -> None:
        """Measure each row, or take it from the file where it was measured already.

        A row whose data are not on this machine is left out with a word on what is wanted.
        """
        for maker in makers:
            key = _key(maker)
            known, protocol = self.kept.get(f"{bench}: {key}"), _protocol(maker)
            if known is None or known.get("protocol") != protocol:
                try:
                    row = maker()
                except DataError as error:  # the data are not on this machine
                    self.console.print(f"{bench}: {key}: left out. {error}")
                    continue
                own = {"bench": bench, "key": key, "protocol": protocol}
                self.kept[f"{bench}: {key}"] = {**own, **asdict(row)}
            else:
                row = Row(**{name: known[name] for name in Row.__dataclass_fields__})
            self.rows.append((bench, row))
            self.console.print(f"{bench}: {row.name}: {row.shown()}")
            self._write()

    def finish(self) -> int:
        """Print the table; 0 where every floor and ceiling holds."""
        table = Table(title="Measured beside the reference")
        for heading in ("benchmark", "figure", "ours", "asked", "reference"):
            table.add_column(heading)
        for bench, row in self.rows:
            style = {True: "green", False: "bold red", None: ""}[row.holds]
            table.add_row(
                bench, Text(row.name), Text(row.shown(), style), row.asked(), Text(row.reference)
            )
        self.console.print(table)
        facts = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        self.console.print(facts)
        return int(any(row.holds is False for _, row in self.rows))

    def _write(self) -> None:
        if self.path is not None:
            content = {"machine": self.machine, "rows": list(self.kept.values())}
            write_atomically(self.path, json.dumps(content, indent=1).encode() + b"\n")


def markdown(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """A Markdown table of rows, and the machine they were measured on, as the README shows them."""
    lines = ["| figure | ours | asked | reference |", "|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.shown()} | {_judged(row)} | {row.reference or '–'} |" for row in rows
    ]
    told = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "\n".join([*lines, "", f"Machine and versions: {told}.", ""])


def _judged(row: Row) -> str:
    """What is asked of a row, and that it is not met where it is not."""
    return f"{row.asked() or '–'}{', **not met**' if row.holds is False else ''}"


def _protocol(maker: Callable[[], Row]) -> str:
    """Digest of the module that a row is measured by: a row of an earlier one is measured anew."""
    module = inspect.getmodule(getattr(maker, "func", maker))
    assert module is not None
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:16]


def _key(maker: Callable[[], Row]) -> str:
    """What tells one row's measurement from another's: the function and its arguments."""
    function = getattr(maker, "func", maker)
    arguments = [*getattr(maker, "args", ()), *getattr(maker, "keywords", {}).values()]
    return " ".join([function.__name__.strip("_"), *map(str, arguments)])
