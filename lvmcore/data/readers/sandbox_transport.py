"""The result of a reading process as files: Arrow for the cells, JSON for the rest or the error."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from lvmcore import errors
from lvmcore.data.cell_texts import CellTexts
from lvmcore.data.column_types import ColumnDescription, ColumnType
from lvmcore.data.number_questions import NumberQuestion, NumberReading
from lvmcore.data.table import DetectedFormat, Table
from lvmcore.errors import DataError, LatentboardError

__all__ = [
    "CONTENT",
    "MEASURED",
    "REQUEST",
    "RESULT",
    "SAMPLE",
    "load_result",
    "save_error",
    "save_table",
]

#: Files in the folder of a reading process.
CONTENT, REQUEST, MEASURED, SAMPLE = "content", "request.json", "size", "sample.json"
RESULT, _CELLS, _TEXTS = "answer.json", "cells.arrow", "texts.arrow"


def save_table(table: Table, folder: Path) -> None:
    """Write a table."""
    cells = pa.Table.from_pandas(table.frame, preserve_index=False)
    feather.write_feather(cells, str(folder / _CELLS), compression="uncompressed")
    if table.texts is not None and table.texts.columns:
        texts = pa.table(dict(table.texts.columns))
        feather.write_feather(texts, str(folder / _TEXTS), compression="uncompressed")
    answer = {
        "name": table.name,
        "columns": [asdict(column) for column in table.columns],
        "notes": table.notes,
        "detected": asdict(table.detected),
        "digest": table.digest,
        "questions": [asdict(question) for question in table.questions],
        "texts": None
        if table.texts is None
        else {
            "delimiter": table.texts.delimiter,
            "decimal_commas": sorted(table.texts.decimal_commas),
        },
    }
    _write_result(folder, answer)


def save_error(error: LatentboardError, folder: Path) -> None:
    """Write the error."""
    _write_result(folder, {"error": type(error).__name__, "message": str(error)})


def load_result(folder: Path) -> Table:
    """Read the table.

    Raises:
        LatentboardError: The error of the reading process, with its class.
    """
    try:
        answer = json.loads((folder / RESULT).read_text(encoding="utf-8", errors="surrogatepass"))
        if "error" in answer:
            kind = getattr(errors, str(answer["error"]), DataError)
            raise kind(str(answer["message"]))
        with pa.OSFile(str(folder / _CELLS)) as file:
            frame = feather.read_table(file).to_pandas()
        return Table(
            name=answer["name"],
            frame=frame,
            columns=tuple(map(_to_column, answer["columns"])),
            notes=tuple(answer["notes"]),
            detected=_to_format(answer["detected"]),
            digest=answer["digest"],
            questions=tuple(map(_to_question, answer["questions"])),
            texts=_load_texts(folder, answer["texts"]),
        )
    except (OSError, KeyError, TypeError, pa.ArrowException) as error:
        raise DataError(
            "The table was read, but what was read cannot be taken over: the disk that holds "
            "temporary files may be full. Make room and try again."
        ) from error


def _load_texts(folder: Path, facts: dict[str, Any] | None) -> CellTexts | None:
    if facts is None:
        return None
    columns = {}
    if (folder / _TEXTS).is_file():
        with pa.OSFile(str(folder / _TEXTS)) as file:
            texts = feather.read_table(file)
        columns = {name: texts.column(name).combine_chunks() for name in texts.column_names}
    return CellTexts(columns, facts["delimiter"], frozenset(facts["decimal_commas"]))


def _write_result(folder: Path, answer: dict[str, Any]) -> None:
    """Write the JSON file by renaming a draft, so that it is always complete."""
    draft = folder / f"{RESULT}.draft"
    draft.write_text(json.dumps(answer), encoding="utf-8")
    draft.replace(folder / RESULT)


def _to_column(facts: dict[str, Any]) -> ColumnDescription:
    kind, examples = ColumnType(facts["type"]), tuple(facts["examples"])
    return ColumnDescription(**{**facts, "type": kind, "examples": examples})


def _to_question(facts: dict[str, Any]) -> NumberQuestion:
    first, second = (NumberReading(**reading) for reading in facts["readings"])
    return NumberQuestion(**{**facts, "readings": (first, second)})


def _to_format(facts: dict[str, Any]) -> DetectedFormat:
    lists = {"missing": tuple(facts["missing"]), "sheets": tuple(facts["sheets"])}
    return DetectedFormat(**{**facts, **lists})
