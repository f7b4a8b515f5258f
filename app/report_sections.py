"""The sections of a report of a run, as HTML: every text of the user escaped and cut. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from app import figures
from app.report_subject import Subject
from app.words import count, duration, number, shortened

__all__ = ["escaped", "sections"]

#: Columns, and classes of a label, that are listed at most.
_MOST_LISTED = 200


def sections(subject: Subject) -> str:
    """All sections of the report, in order."""
    return "\n".join(
        part(subject)
        for part in (
            _head,
            _map,
            _relevance,
            _curves,
            _measured,
            _data,
            _settings,
            _notes,
            _program,
            _origin,
        )
    )


def _head(subject: Subject) -> str:
    job = subject.job
    title, paper = subject.model
    ended = "" if job.ended is None else f" on {job.ended:%Y-%m-%d}"
    verdict = ""
    if job.elbo is not None:
        verdict = f" Bound (ELBO) {number(job.elbo, 6)} nats"
        if job.status == "done":
            verdict += ", which had stopped rising" if job.converged else ", still rising"
        verdict += "."
    return (
        f"<header><p class='kind'>Report of a run</p><h1>{_text(job.name, 120)}</h1>"
        f"<p>{_text(title)} ({_text(paper)}) on {_text(job.spec.dataset_name)}, {job.status}"
        f"{ended} in {duration(job.seconds)}.{verdict}</p></header>"
    )


def _map(subject: Subject) -> str:
    drawn, on_map = len(subject.rows.points), subject.shape[1]
    said = []
    if drawn < on_map:
        said.append(
            f"{count(drawn, 'row')} of {count(on_map, 'row')} are drawn, evenly spaced in the "
            "table's order."
        )
    if subject.rows.sd is not None:
        several = int(np.isfinite(subject.rows.sd).all(axis=1).sum())
        said.append(
            f"Ellipses: posterior of {count(several, 'row')}, {figures.ELLIPSE_SD:g} sd. Where "
            "they are wide the model is unsure of the place."
        )
    if subject.sees_labels:
        said.append(
            "Positions are those of the fit, which has seen the labels: how well the classes part "
            "here is no measure of accuracy on new rows."
        )
    return _section("Map", _place("map", "Map of the rows in two latent dimensions"), said)


def _relevance(subject: Subject) -> str:
    if not subject.relevance:
        return ""
    said = ["Share of each latent dimension in its path's relevance; those on the map stand out."]
    cells = [
        [str(q + 1), *(f"{100 * share[q]:.3g} %" for share in subject.relevance.values())]
        for q in range(len(next(iter(subject.relevance.values()))))
    ]
    table = _table(["dimension", *subject.relevance], cells)
    place = _place("relevance", "Relevance of each latent dimension")
    return _section("Relevance of the dimensions", place + _folded("As numbers", table), said)


def _curves(subject: Subject) -> str:
    courses = subject.courses()
    if not courses:
        return ""
    alts = {"bound": "The bound at each step", "terms": "The parts of the bound at each step"}
    places = "".join(_place(place, alts[place]) for place in courses)
    last = subject.steps[-1]
    ends = [[name, number(value, 6)] for name, value in last.terms.items()]
    if "bound" in courses:
        ends.append(["bound (ELBO)", number(last.objective, 6)])
    table = _folded("At the last step, nats", _table(["part", "nats"], ends))
    title = "Bound and its parts" if "bound" in courses else "Course of the fit"
    return _section(title, places + table, [])


def _measured(subject: Subject) -> str:
    rows = [
        [
            metric.label,
            "not measured" if metric.value is None else number(metric.value),
            metric.protocol,
        ]
        for metric in subject.metrics
    ]
    if not rows:
        return _section("Figures", "", ["None were measured."])
    return _section("Figures", _table(["figure", "value", "how it was measured"], rows), [])


def _data(subject: Subject) -> str:
    whole, on_map, features = subject.shape
    said = [
        f"{count(whole, 'row')} in the table, {count(on_map, 'row')} in the fit, "
        f"{count(features, 'feature')}."
    ]
    parts = []
    for label, classes in subject.labels.items():
        cells = [[name, f"{n:,}"] for name, n in list(classes.items())[:_MOST_LISTED]]
        title = f"Label {shortened(label)}"
        if len(classes) > len(cells):
            title += f": the first {len(cells)} of {count(len(classes), 'class', 'classes')}"
        parts.append(_folded(title, _table(["class", "rows"], cells)))
    if subject.left_out:
        parts.append("<h3>Left out or changed</h3>" + _list(subject.left_out))
    cells = [
        [column.name, number(column.mean), number(column.sd, 3), f"{column.missing:,}"]
        for column in subject.columns[:_MOST_LISTED]
    ]
    more = len(subject.columns) - len(cells)
    title = "Columns" if more <= 0 else f"Columns: the first {len(cells)} of {len(cells) + more}"
    parts.append(_folded(title, _table(["column", "mean", "sd", "missing cells"], cells)))
    return _section("Data", "".join(parts), said)


def _settings(subject: Subject) -> str:
    cells = [
        [s.label, s.name, _value(s.value), "default" if s.default else ""] for s in subject.settings
    ]
    return _section("Settings", _table(["setting", "in Python", "value", ""], cells), [])


def _value(value: object) -> str:
    """A setting's value on one line."""
    if isinstance(value, np.ndarray | list | tuple):
        return f"numbers of shape {np.shape(value)}"
    return "auto" if value is None else shortened(value, 80)


def _notes(subject: Subject) -> str:
    note = subject.job.note
    if not note:
        return ""
    return _section("Notes", f"<p class='note'><bdi>{escaped(note)}</bdi></p>", [])


def _program(subject: Subject) -> str:
    if subject.program is None:
        return ""
    return _section(
        "Python that repeats the run",
        f"<pre><code>{escaped(subject.program)}</code></pre>",
        ["It reads the data from the store of the machine on which the run was made."],
    )


def _origin(subject: Subject) -> str:
    job = subject.job
    seed = job.spec.parameters.get("random_state", 0)
    told = {
        "run": job.id,
        "seed": "none: its draws cannot be repeated" if seed is None else str(seed),
        "data digest (SHA-256)": job.spec.dataset,
        "model digest (SHA-256)": subject.digest,
        "submitted": f"{job.submitted:%Y-%m-%d %H:%M} UTC",
        **{f"version of {name}": version for name, version in job.spec.versions.items()},
    }
    cells = [[name, value] for name, value in told.items()]
    return _section("Where it comes from", _table(["", ""], cells), [])


# ---- HTML ------------------------------------------------------------------------------------


def escaped(text: object) -> str:
    """Text that shows as it is and nothing else."""
    return html.escape(str(text), quote=True)


def _text(text: object, length: int = 80) -> str:
    """User text, cut short, in a direction of its own."""
    return f"<bdi>{escaped(shortened(text, length))}</bdi>"


def _section(title: str, body: str, said: Iterable[str]) -> str:
    words = "".join(f"<p>{escaped(sentence)}</p>" for sentence in said)
    return f"<section><h2>{escaped(title)}</h2>{words}{body}</section>"


def _place(name: str, alt: str) -> str:
    """Where a figure is drawn."""
    return f'<div class="figure" id="{name}" role="img" aria-label="{escaped(alt)}"></div>'


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(title)}</th>" for title in titles) if any(titles) else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell, 600)}</td>" for cell in row) + "</tr>" for row in rows
    )
    thead = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<div class='wide'><table>{thead}<tbody>{body}</tbody></table></div>"


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{_text(title, 120)}</summary>{body}</details>"


def _list(sentences: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(s, 600)}</li>" for s in sentences) + "</ul>"
