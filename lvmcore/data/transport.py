"""A table, or why there is none, as two files: Arrow for the cells, JSON for the rest."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from lvmcore import errors
from lvmcore.data.columns import Column, ColumnType
from lvmcore.data.table import Detected, Table
from lvmcore.errors import DataError, LatentboardError

__all__ = [
    "ANSWER",
    "CONTENT",
    "MEASURED",
    "REQUEST",
    "load_answer",
    "save_error",
    "save_table",
]

#: The files in the folder that a reading process works in.
CONTENT, REQUEST, MEASURED = "content", "request.json", "size"
ANSWER, _CELLS = "answer.json", "cells.arrow"


def save_table(table: Table, folder: Path) -> None:
    """Write a table."""
    cells = pa.Table.from_pandas(table.frame, preserve_index=False)
    feather.write_feather(cells, str(folder / _CELLS), compression="uncompressed")
    answer = {
        "name": table.name,
        "columns": [asdict(column) for column in table.columns],
        "notes": table.notes,
        "detected": asdict(table.detected),
        "digest": table.digest,
    }
    _write(folder, answer)


def save_error(error: LatentboardError, folder: Path) -> None:
    """Write why there is no table."""
    _write(folder, {"error": type(error).__name__, "message": str(error)})


def load_answer(folder: Path) -> Table:
    """Read the table.

    Raises:
        LatentboardError: There is none; the error is of the kind that was written.
    """
    try:
        answer = json.loads((folder / ANSWER).read_text(encoding="utf-8", errors="surrogatepass"))
        if "error" in answer:
            kind = getattr(errors, str(answer["error"]), DataError)
            raise kind(str(answer["message"]))
        with pa.OSFile(str(folder / _CELLS)) as file:
            frame = feather.read_table(file).to_pandas()
        return Table(
            name=answer["name"],
            frame=frame,
            columns=tuple(map(_column, answer["columns"])),
            notes=tuple(answer["notes"]),
            detected=_detected(answer["detected"]),
            digest=answer["digest"],
        )
    except (OSError, KeyError, TypeError, pa.ArrowException) as error:
        raise DataError(
            "The table was read, but what was read cannot be taken over: the disk that holds "
            "temporary files may be full. Make room and try again."
        ) from error


def _write(folder: Path, answer: dict[str, Any]) -> None:
    """Write the answer under another name first: where it is there, it is whole."""
    draft = folder / f"{ANSWER}.draft"
    draft.write_text(json.dumps(answer), encoding="utf-8")
    draft.replace(folder / ANSWER)


def _column(facts: dict[str, Any]) -> Column:
    kind, examples = ColumnType(facts["type"]), tuple(facts["examples"])
    return Column(**{**facts, "type": kind, "examples": examples})


def _detected(facts: dict[str, Any]) -> Detected:
    lists = {"missing": tuple(facts["missing"]), "sheets": tuple(facts["sheets"])}
    return Detected(**{**facts, **lists})
