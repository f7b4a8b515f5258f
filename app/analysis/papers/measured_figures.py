"""The stored measurements beside the papers' figures. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from app.analysis.papers.catalogue import PaperRow, PaperTable

__all__ = [
    "BENCHMARKS",
    "Comparison",
    "Measurement",
    "compare",
    "comparison_table",
    "figure_text",
    "read_measurements",
    "short_title",
    "summary",
]

#: The file that ``lvmcore bench all --json`` writes, in the source tree.
BENCHMARKS = Path(__file__).parents[3] / "assets" / "benchmarks.json"

Verdict = Literal["better", "equal", "within one sd", "behind", "not measured"]

#: Letters of a title that fit in the column of the models.
_LONGEST_TITLE = 26
# Figures that differ by less than this share of the paper's are equal: it is given to three digits.
_EQUAL = 5e-4


@dataclass(frozen=True)
class Measurement:
    """A measurement of a benchmark.

    Attributes:
        value: its value.
        spread: sd over folds or seeds; None for a single value.
        settings: settings of the measurement, by name.
        machine: the machine, as the benchmark describes it; "" where it was not noted.
        commit: the commit of the code; "" where it was not noted.
        reference: what the benchmark prints beside it: the paper's figure, and other scores of the
            same fits; "" for nothing.
    """

    value: float
    spread: float | None
    settings: Mapping[str, Any]
    machine: str
    commit: str
    reference: str = ""


@dataclass(frozen=True)
class Comparison:
    """A paper's figure and ours.

    Attributes:
        row: the paper's figure.
        measured: ours; None where it is not measured.
        verdict: ours against the paper's.
    """

    row: PaperRow
    measured: Measurement | None
    verdict: Verdict


def read_measurements(path: Path = BENCHMARKS) -> dict[tuple[str, str], Measurement]:
    """The stored measurements by benchmark and name; none where there is no file."""
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {
        (row["bench"], row["name"]): Measurement(
            float(row["value"]),
            None if row["spread"] is None else float(row["spread"]),
            row["settings"],
            row.get("machine") or "",
            row.get("commit") or "",
            row.get("reference") or "",
        )
        for row in stored["rows"]
    }


def compare(
    table: PaperTable, measurements: Mapping[tuple[str, str], Measurement]
) -> tuple[Comparison, ...]:
    """The figures of a table with ours, in the table's order."""
    found = []
    for row in table.rows:
        measured = measurements.get((table.benchmark, row.measured))
        found.append(Comparison(row, measured, _verdict(row, measured, higher=table.higher)))
    return tuple(found)


def _verdict(row: PaperRow, measured: Measurement | None, *, higher: bool) -> Verdict:
    """Ours against the paper's; within one sd is the larger sd of both."""
    if measured is None:
        return "not measured"
    lead = measured.value - row.paper if higher else row.paper - measured.value
    if abs(lead) <= _EQUAL * abs(row.paper):
        return "equal"
    if lead > 0:
        return "better"
    error = max(measured.spread or 0.0, row.paper_sd or 0.0)
    return "within one sd" if -lead <= error else "behind"


def figure_text(measured: Measurement) -> str:
    """A measurement with its sd, to the place of the sd's second digit."""
    if not measured.spread:
        return f"{measured.value:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(measured.spread)))
    return f"{measured.value:.{decimals}f} ± {measured.spread:.{decimals}f}"


def comparison_table(found: tuple[Comparison, ...], titles: Mapping[str, str]) -> pd.DataFrame:
    """The comparisons as a table, one row each.

    Args:
        found: the comparisons.
        titles: titles of the models by key.
    """
    return pd.DataFrame(
        {
            "Data": [one.row.data for one in found],
            "Model": [short_title(titles.get(one.row.model, one.row.model)) for one in found],
            "Paper": [one.row.paper for one in found],
            "Here": [None if one.measured is None else figure_text(one.measured) for one in found],
            "Verdict": [one.verdict for one in found],
        }
    )


def short_title(title: str) -> str:
    """A title, or the abbreviation in its brackets where the title is too long for a column."""
    _, bracket, abbreviation = title.partition(" (")
    return abbreviation.rstrip(")") if bracket and len(title) > _LONGEST_TITLE else title


def summary(found: tuple[Comparison, ...]) -> str:
    """The verdicts in one sentence."""
    counts = {
        "better than the paper": sum(one.verdict == "better" for one in found),
        "equal": sum(one.verdict == "equal" for one in found),
        "within one sd": sum(one.verdict == "within one sd" for one in found),
        "behind": sum(one.verdict == "behind" for one in found),
        "not measured": sum(one.verdict == "not measured" for one in found),
    }
    said = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    return f"{len(found)} figures: {said}."
