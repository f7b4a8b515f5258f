"""A Jupyter notebook that repeats a run, in the notebook format 4.5."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from lvmcore.runs.job import Job

__all__ = ["run_notebook"]

#: Lines of a program at which a cell begins, after the imports.
_STARTS = ("dataset =", "model =", "model.fit(")
_LANGUAGE = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_PLOT = """import matplotlib.pyplot as plt

mean = model.embedding_.mean
plt.scatter(mean[:, 0], mean[:, min(1, mean.shape[1] - 1)], s=12)
plt.xlabel("latent dimension 1")
plt.ylabel("latent dimension 2");"""


def run_notebook(job: Job, program: str) -> bytes:
    """A notebook whose cells are the parts of a program, and a figure of the map.

    Args:
        job: the run.
        program: the program that repeats it, from ``lvmcore.runs.python_snippet.snippet``.

    Returns:
        The file, JSON in UTF-8.
    """
    comments, code = _comments_and_code(program)
    parts = [*_parts(code), *([] if job.spec.target else [_PLOT])]
    title = re.sub(r"([\\`*_{}\[\]<>#|$])", r"\\\1", job.name)
    cells = [_cell("markdown", f"# {title}", 0)]
    if comments:
        cells.append(_cell("markdown", "\n".join(f"    {line}" for line in comments), 1))
    cells += [_cell("code", part, n) for n, part in enumerate(parts, start=len(cells))]
    content = {"cells": cells, "metadata": _LANGUAGE, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"


def _comments_and_code(program: str) -> tuple[list[str], list[str]]:
    """The comments at the top of a program, and the lines after them."""
    lines = program.strip().splitlines()
    first = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [line.removeprefix("#").strip() for line in lines[:first]], lines[first:]


def _parts(lines: list[str]) -> list[str]:
    """The lines in parts: the imports, then one from each start to the next."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(_STARTS):
            parts.append([])
        parts[-1].append(line)
    return [text for part in parts if (text := "\n".join(part).strip())]


def _cell(kind: str, text: str, number: int) -> dict[str, Any]:
    digest = hashlib.sha256(f"{number}{text}".encode()).hexdigest()
    cell: dict[str, Any] = {
        "id": digest[:12],
        "cell_type": kind,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
