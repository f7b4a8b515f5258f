"""What MkDocs generates while it builds: tables from the code, tables of figures, and MathML.

A page asks for generated text by a comment of its own line, ``<!-- settings: ldgd -->``:

    model: KEY …            a table of what one or several models are and support
    settings: KEY           the settings that a model declares
    api: KEY                its class docstring, through mkdocstrings
    models: latent          the models of a map, or ``supervised``: those of a target, with links
    kernels:                the kernels that an expression may name
    likelihoods:            the likelihoods that columns may have
    benchmarks: NAME …      rows of assets/benchmarks.json
    unmet:                  the names of the rows whose floor or ceiling does not hold
    help: COMMAND           the help of ``lvmcore COMMAND``
    section: FILE # TITLE   a section of another Markdown file of the repository

Equations between dollar signs become MathML, which browsers draw without a script.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lvmcore import cli  # noqa: E402
from lvmcore.bench.harness.report import BenchmarkRow, commit_label  # noqa: E402
from lvmcore.kernels.catalogue import KERNEL_TYPES  # noqa: E402
from lvmcore.likelihoods.catalogue import LIKELIHOODS  # noqa: E402
from lvmcore.models import MODELS, PREDICTORS, REGISTRY  # noqa: E402

__all__ = ["GENERATORS", "expand", "math_ml", "on_page_content", "on_page_markdown", "page_of"]

MARKER = re.compile(r"^<!-- ([a-z]+): ?(.*?) ?-->$", re.MULTILINE)
EQUATION = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
HELP_WIDTH = "92"
CELLS = {"any": "any number", "positive": "nothing below 0", "counts": "counts"}
#: Capabilities that a model page lists, and their names there.
FLAGS = {
    "several_labels": "several label columns",
    "missing_cells": "missing cells",
    "new_rows": "new rows",
    "decoding": "decoding",
    "sampling": "sampling",
    "uncertainty": "uncertainty of positions",
    "density": "predictive density",
    "steps": "stopping at a step",
    "streams": "memory-mapped tables",
}


# ---- MkDocs calls these --------------------------------------------------------------------------


def on_page_markdown(text: str, /, **_: Any) -> str:
    """Replace the comments of a page by what they ask for."""
    return expand(text)


def on_page_content(content: str, /, **_: Any) -> str:
    """Replace the equations of a page by MathML."""
    return EQUATION.sub(lambda found: math_ml(html.unescape(found[2])), content)


# ---- the comments --------------------------------------------------------------------------------


def expand(text: str) -> str:
    """Replace every comment that names a generator by what it returns.

    Raises:
        KeyError: there is no such generator, or no such model.
    """
    return MARKER.sub(lambda found: GENERATORS[found[1]](*found[2].split()), text)


def page_of(key: str) -> str:
    """The page of a model within docs/models: regressor and classifier share one."""
    return f"{re.sub('_(regressor|classifier)$', '', key)}.md"


def model_table(*keys: str) -> str:
    """What models are and support, a column for each."""
    models = [REGISTRY[key] for key in keys]
    rows: list[tuple[str, list[str]]] = [
        ("key", [f"`{model.key}`" for model in models]),
        ("class", [f"`lvmcore.{model.__name__}`" for model in models]),
        ("use", [model.summary for model in models]),
        ("source", [model.paper for model in models]),
    ]
    if keys[0] in MODELS:
        can = [MODELS[key].capabilities for key in keys]
        rows += [
            ("labels", [_labels(one) for one in can]),
            ("cells", [CELLS.get(one.cells, one.cells) for one in can]),
            ("supports", [_flags(one, True) for one in can]),
            ("does not support", [_flags(one, False) for one in can]),
        ]
    lines = [f"| | {' | '.join(model.title for model in models)} |", "|---" * (1 + len(keys)) + "|"]
    if len({model.title for model in models}) < len(models):
        lines[0] = f"| | {' | '.join(key.rpartition('_')[2] for key in keys)} |"
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])


def _flags(can: Any, supported: bool) -> str:
    """The capabilities that a model has, or those that it lacks."""
    return ", ".join(text for flag, text in FLAGS.items() if getattr(can, flag) is supported)


def _labels(can: Any) -> str:
    if can.labels == "none":
        return "not used"
    return "needed, may be partly missing" if can.missing_labels else "needed"


def settings_table(key: str) -> str:
    """The settings of a model, from their metadata."""
    lines = ["| setting | default | allowed | what it does |", "|---|---|---|---|"]
    for parameter in REGISTRY[key].parameters():
        default = "none" if parameter.default is None else str(parameter.default)
        mark = " (advanced)" if parameter.advanced else ""
        lines.append(
            f"| `{parameter.name}` | {default} | {parameter.expected} | {parameter.doc}{mark} |"
        )
    return "\n".join(lines)


def api(key: str) -> str:
    """The class of a model, for mkdocstrings."""
    model = REGISTRY[key]
    return f"::: {model.__module__}.{model.__name__}"


def models_table(task: str) -> str:
    """All models of a task, each with the link to its page."""
    if task == "supervised":
        return _predictors_table()
    lines = [
        "| key | model | use | labels | missing cells | new rows | decoding | sd | source |",
        "|---" * 9 + "|",
    ]
    for key, model in MODELS.items():
        can = model.capabilities
        flags = [can.missing_cells, can.new_rows, can.decoding, can.uncertainty]
        supported = " | ".join("yes" if flag else "no" for flag in flags)
        lines.append(
            f"| `{key}` | [{model.title}]({page_of(key)}) | {model.summary} | {_labels(can)} "
            f"| {supported} | {model.paper} |"
        )
    return "\n".join(lines)


def _predictors_table() -> str:
    lines = ["| keys | model | use | source |", "|---" * 4 + "|"]
    pages: dict[str, list[str]] = {}
    for key in PREDICTORS:
        pages.setdefault(page_of(key), []).append(key)
    for page, keys in pages.items():
        first = PREDICTORS[keys[0]]
        papers = "; ".join(dict.fromkeys(PREDICTORS[key].paper for key in keys))
        names = ", ".join(f"`{key}`" for key in keys)
        lines.append(f"| {names} | [{first.title}]({page}) | {first.summary} | {papers} |")
    return "\n".join(lines)


def likelihoods_table() -> str:
    """The likelihoods that columns may have."""
    lines = ["| likelihood | for | cells |", "|---" * 3 + "|"]
    lines += [f"| `{name}` | {one.summary} | {one.cells} |" for name, one in LIKELIHOODS.items()]
    return "\n".join(lines)


def kernels_table() -> str:
    """The kernels of expressions, with their options."""
    lines = ["| kernel | functions | options |", "|---" * 3 + "|"]
    for name, kernel in KERNEL_TYPES.items():
        options = "; ".join(
            f"`{key}`: {option.summary}, {option.expected}"
            for key, option in kernel.options.items()
        )
        few = {None: "", 1: " (of one column)"}
        one = few.get(kernel.most_columns, f" (of at most {kernel.most_columns} columns)")
        lines.append(f"| `{name}` | {kernel.summary}{one} | {options or '–'} |")
    return "\n".join(lines)


# ---- figures -------------------------------------------------------------------------------------


def stored_rows(*benches: str) -> list[tuple[BenchmarkRow, dict[str, Any]]]:
    """Rows of assets/benchmarks.json, of some benchmarks or of all, each with its stored form."""
    names = BenchmarkRow.__dataclass_fields__
    return [
        (BenchmarkRow(**{name: row[name] for name in names}), row)
        for row in _benchmarks()["rows"]
        if not benches or row["bench"] in benches
    ]


def benchmarks_table(*benches: str) -> str:
    """A table of rows, each with its machine and commit, and below it the machines."""
    machines: list[str] = []
    lines = ["| figure | ours | asked | reference | machine, commit |", "|---" * 5 + "|"]
    for row, stored in stored_rows(*benches):
        facts = _machine(stored.get("machine") or _benchmarks()["machine"])
        if facts not in machines:
            machines.append(facts)
        where = f"{machines.index(facts) + 1}, {commit_label(stored)}"
        asked = f"{row.asked() or '–'}{', **not met**' if row.holds is False else ''}"
        cells = (row.name, row.shown(), asked, row.reference or "–", where)
        lines.append(f"| {' | '.join(cells)} |")
    named = (f"Machine {number}: {facts}." for number, facts in enumerate(machines, 1))
    return "\n".join([*lines, "", *named])


def _machine(facts: dict[str, Any] | str) -> str:
    """Machine and versions in one line; rows of their own machine hold it as text."""
    if isinstance(facts, str):
        return facts
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def unmet_rows() -> str:
    """The rows whose floor or ceiling does not hold, as a list."""
    names = [row.name for row, _ in stored_rows() if row.holds is False]
    return "\n".join(f"- `{name}`" for name in names) or "Every floor and ceiling holds."


def _benchmarks() -> dict[str, Any]:
    path = ROOT / "assets" / "benchmarks.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


# ---- the command line and other files ------------------------------------------------------------


def help_text(*command: str) -> str:
    """The help of a command, as a code block."""
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_WIDTH
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            cli.main([*command, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return f"```text\n{printed.getvalue().strip()}\n```"


def section(*words: str) -> str:
    """The text below a heading of a Markdown file, up to the next heading of its level.

    Raises:
        ValueError: the file has no such heading.
    """
    path, _, title = " ".join(words).partition(" # ")
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    start = lines.index(f"## {title}") + 1
    return "\n".join(_until_heading(lines[start:])).strip()


def _until_heading(lines: Iterable[str]) -> list[str]:
    taken: list[str] = []
    for line in lines:
        if line.startswith(("# ", "## ")):
            break
        taken.append(line)
    return taken


GENERATORS: dict[str, Callable[..., str]] = {
    "model": model_table,
    "settings": settings_table,
    "api": api,
    "models": models_table,
    "kernels": kernels_table,
    "likelihoods": likelihoods_table,
    "benchmarks": benchmarks_table,
    "unmet": unmet_rows,
    "help": help_text,
    "section": section,
}


# ---- equations -----------------------------------------------------------------------------------


def math_ml(source: str) -> str:
    r"""An equation as MathML; ``\[…\]`` stands on its own line, ``\(…\)`` in the text."""
    from latex2mathml.converter import convert

    source = source.strip()
    display = "block" if source.startswith(r"\[") else "inline"
    converted: str = convert(source[2:-2], display=display)
    return converted
