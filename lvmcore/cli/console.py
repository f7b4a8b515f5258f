"""Console output of the commands (text, tables, JSON, progress, errors), and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from lvmcore.cli.progress import ProgressMeter, meter_for
from lvmcore.evaluation.target_scores import (
    BASELINES,
    COLUMNS,
    MODEL,
    TargetComparison,
    verdict,
)
from lvmcore.metrics.metric import Metric
from lvmcore.runs.atomic_files import dump_json

__all__ = ["CommandConsole", "ExitCode", "short_number"]


class ExitCode(IntEnum):
    """The exit status of a command.

    Attributes:
        OK: success.
        FAILED: any other error.
        BAD_INPUT: data or settings cannot be used.
        INTERRUPTED: Ctrl-C before there was a result.
    """

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


class CommandConsole:
    """Standard output and standard error of a command."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    @property
    def width(self) -> int:
        """Characters on a line of the terminal."""
        return self._console.width

    def say(self, text: str) -> None:
        """Print a text without markup or line breaks."""
        self._console.print(Text(text), soft_wrap=True)

    def show(self, grid: Grid) -> None:
        """Print a table."""
        self._console.print(grid)

    def write_json(self, value: Any) -> None:
        """Print a value as JSON."""
        print(dump_json(value, indent=1))

    def say_metrics(
        self, metrics: Mapping[str, Metric], number: Callable[[float], str] | None = None
    ) -> None:
        """Print metrics with their protocols, one per line.

        Args:
            metrics: the metrics.
            number: format of a value; None for ``short_number``.
        """
        write = short_number if number is None else number
        for metric in metrics.values():
            value = "not measured" if metric.value is None else write(metric.value)
            self.say(f"  {metric.name}: {value}. {metric.protocol}")

    def say_comparison(self, comparison: TargetComparison | None) -> None:
        """Print the scores of a model and of baselines, one method per line, and who is best.

        Args:
            comparison: the scores; None prints nothing.
        """
        if comparison is None:
            return
        self.say(f"  {verdict(comparison, short_number)}")
        titles = {MODEL: "the model", **BASELINES}
        for one in comparison.methods:
            values = (
                f"{title} {'-' if value is None else short_number(value)}"
                for key, title in COLUMNS[comparison.task].items()
                for value in (one.values[key],)
            )
            self.say(f"    {titles[one.method]}: {', '.join(values)}")
        self.say(f"    {comparison.protocol}")

    def meter(self) -> ProgressMeter:
        """A progress meter for a fit: live on a terminal, else plain lines."""
        return meter_for(self._console)

    def error(self, message: object) -> None:
        """Print a message to standard error."""
        print(message, file=sys.stderr)

    def discard_output(self) -> None:
        """Discard further output, after the reader of standard output has closed it."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def short_number(value: float) -> str:
    """A number with three decimals; one from 100 with one decimal."""
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"
