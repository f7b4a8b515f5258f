"""The texts and tables of a report of a run, for the template of its sections. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from app.figures import canvas_scene
from app.formatting import count, duration, number, shortened
from app.report.subject import ReportSubject
from lvmcore.devices import computed_on
from lvmcore.runs.convergence import convergence_clause

__all__ = ["section_values"]

#: Columns, and classes of a label, that are listed at most.
_MOST_LISTED = 200

_ALTERNATIVE_TEXTS = {
    "bound": "The bound at each step",
    "terms": "The parts of the bound at each step",
}


def section_values(subject: ReportSubject) -> dict[str, object]:
    """Variables of the template ``report/sections.html``."""
    return {
        "run": _run(subject),
        "map": {"sentences": _map_sentences(subject)},
        "relevance": _relevance(subject),
        "curves": _curves(subject),
        "scores": [
            [
                metric.name,
                "not measured" if metric.value is None else number(metric.value),
                metric.protocol,
            ]
            for metric in subject.metrics
        ],
        "data": _data(subject),
        "settings": [
            [s.label, s.name, _setting_value(s.value), "default" if s.default else ""]
            for s in subject.settings
        ],
        "note": subject.job.note,
        "program": subject.program,
        "provenance": _provenance(subject),
    }


def _run(subject: ReportSubject) -> dict[str, str]:
    job = subject.job
    title, paper = subject.model
    ended = "" if job.ended is None else f" on {job.ended:%Y-%m-%d}"
    outcome = f"{job.status}{ended} in {duration(job.seconds)}."
    if job.elbo is not None:
        outcome += f" Bound (ELBO) {number(job.elbo, 6)} nats"
        if job.status == "done":
            outcome += f", {convergence_clause(job, partial(number, digits=2))}"
        outcome += "."
    outcome += computed_on(job.computation)
    return {
        "name": job.name,
        "model": title,
        "paper": paper,
        "dataset": job.spec.dataset_name,
        "outcome": outcome,
    }


def _map_sentences(subject: ReportSubject) -> list[str]:
    drawn, on_map = len(subject.rows.points), subject.shape[1]
    sentences = []
    if drawn < on_map:
        sentences.append(
            f"{count(drawn, 'row')} of {count(on_map, 'row')} are drawn, evenly spaced in the "
            "order of the table."
        )
    if subject.rows.sd is not None:
        ellipses = int(np.isfinite(subject.rows.sd).all(axis=1).sum())
        sentences.append(
            f"Ellipses: posterior of {count(ellipses, 'row')}, {canvas_scene.ELLIPSE_SD:g} sd. "
            "A wide ellipse means an uncertain latent position."
        )
    if subject.sees_labels:
        sentences.append(
            "The fit used the labels. The separation of the classes on this map is no measure of "
            "accuracy on new rows."
        )
    return sentences


def _relevance(subject: ReportSubject) -> dict[str, object] | None:
    if not subject.relevance:
        return None
    dimensions = range(len(next(iter(subject.relevance.values()))))
    return {
        "titles": ["dimension", *subject.relevance],
        "rows": [
            [str(q + 1), *(f"{100 * share[q]:.3g} %" for share in subject.relevance.values())]
            for q in dimensions
        ],
    }


def _curves(subject: ReportSubject) -> dict[str, object] | None:
    curves = subject.curves()
    if not curves:
        return None
    last = subject.steps[-1]
    last_step = [[name, number(value, 6)] for name, value in last.terms.items()]
    if "bound" in curves:
        last_step.append(["bound (ELBO)", number(last.objective, 6)])
    return {
        "title": "Bound and its parts" if "bound" in curves else "Training curve",
        "figures": [(name, _ALTERNATIVE_TEXTS[name]) for name in curves],
        "last_step": last_step,
    }


def _data(subject: ReportSubject) -> dict[str, object]:
    whole, on_map, features = subject.shape
    columns = [
        [column.name, number(column.mean), number(column.sd, 3), f"{column.missing:,}"]
        for column in subject.columns[:_MOST_LISTED]
    ]
    total = len(subject.columns)
    cut = f": the first {len(columns)} of {total}" if total > len(columns) else ""
    return {
        "summary": f"{count(whole, 'row')} in the table, {count(on_map, 'row')} in the fit, "
        f"{count(features, 'feature')}.",
        "labels": [_classes(label, sizes) for label, sizes in subject.labels.items()],
        "left_out": subject.left_out,
        "columns": {"summary": f"Columns{cut}", "rows": columns},
    }


def _classes(label: str, sizes: Mapping[str, int]) -> dict[str, object]:
    """The classes of a label column with their numbers of rows."""
    rows = [[name, f"{n:,}"] for name, n in list(sizes.items())[:_MOST_LISTED]]
    summary = f"Label {shortened(label)}"
    if len(sizes) > len(rows):
        summary += f": the first {len(rows)} of {count(len(sizes), 'class', 'classes')}"
    return {"summary": summary, "rows": rows}


def _setting_value(value: object) -> str:
    """The value of a setting on one line."""
    if isinstance(value, np.ndarray | list | tuple):
        return f"numbers of shape {np.shape(value)}"
    return "auto" if value is None else shortened(value, 80)


def _provenance(subject: ReportSubject) -> list[tuple[str, str]]:
    job = subject.job
    seed = job.spec.parameters.get("random_state", 0)
    return [
        ("run", job.id),
        ("seed", "none: the run cannot be repeated exactly" if seed is None else str(seed)),
        ("data digest (SHA-256)", job.spec.dataset),
        ("model digest (SHA-256)", subject.digest),
        ("submitted", f"{job.submitted:%Y-%m-%d %H:%M} UTC"),
        *((f"version of {name}", version) for name, version in job.spec.versions.items()),
    ]
