"""Scores of runs: those of the fit, those of other axes, and those of a scoring job."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from app.analysis.comparison import comparison_table
from app.analysis.comparison.comparison_table import MapScores
from app.services import fitted_maps, server
from app.services.caching import cached
from lvmcore.errors import LatentboardError
from lvmcore.metrics.metric import Metric, shown_key
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job, JobSpec
from lvmcore.runs.atomic_files import read_json

if TYPE_CHECKING:
    from app.analysis.map.map_axes import View
    from lvmcore.evaluation.learning_curves import LearningCurve

__all__ = [
    "learning_curve",
    "learning_curve_job",
    "learning_curve_spec",
    "map_scores",
    "picture_metrics",
    "retained_neighbours",
    "rows_to_learn_from",
    "score_values",
    "start_label_score",
    "start_learning_curve",
    "start_score",
]

#: Longest fit, in seconds, after which held-out rows are scored without a click.
LONGEST_FIT = 120.0

#: Held while a score is looked up and submitted, so that two sessions do not start the same.
_submission = threading.Lock()


def map_scores(job: Job, *, complete: bool = False) -> MapScores:
    """Scores of a run's map; those not yet measured are None.

    Args:
        job: the run.
        complete: whether scores in the two dimensions of the picture are computed now if the run
            does not store them, as runs of earlier versions do not.
    """
    from lvmcore.models import MODELS

    score = server.store().find(_score_spec(job), failed=True)
    shown: dict[str, Metric] = {}
    if complete and job.has_model and job.stage == "finished":
        with suppress(LatentboardError):
            shares = fitted_maps.model(job.id).variance_shares()
            shown = picture_metrics(job, leading_dimensions(shares))
    return comparison_table.map_scores(job, score, MODELS[job.spec.model].capabilities, shown)


def score_values(job: Job, axes: View | None = None) -> list[Metric]:
    """All metrics of a run: those of the fit, then those of its scoring job.

    Args:
        job: the run.
        axes: the two dimensions of the picture, or its projection; None for those that it opens
            with.
    """
    score = server.store().find(_score_spec(job))
    more = {} if score is None else score.metrics
    found = dict(job.metrics) | {key: more[key] for key in more if key not in job.metrics}
    if axes is not None and job.has_model and job.stage == "finished":
        found |= picture_metrics(job, axes)
    return list(found.values())


def picture_metrics(job: Job, axes: View) -> dict[str, Metric]:
    """Metrics of positions in two dimensions; those of the fit, or else computed now.

    Args:
        job: a finished run with a model.
        axes: the dimensions, or the projection.

    Returns:
        Nothing for a map of at most two dimensions.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    stored = {
        key: metric
        for key, metric in job.metrics.items()
        if key.startswith(shown_key("")) or key == "retained_neighbours"
    }
    retained = retained_neighbours(job.id, axes)
    if retained is None:
        return {}
    own = stored.get("retained_neighbours")
    same = own is not None and own.dimensions == retained.dimensions
    # Runs of earlier versions store the retained neighbours of unscaled dimensions.
    return stored | {"retained_neighbours": retained} if same else _picture_metrics(job.id, axes)


@cached(max_entries=256)
def retained_neighbours(run: str, axes: View) -> Metric | None:
    """How many neighbours in all dimensions are neighbours in the picture; None if it has all.

    Raises:
        DataError: the run has no model.
    """
    from lvmcore.evaluation import map_quality
    from lvmcore.evaluation.map_dimensions import scored_dimensions

    model = fitted_maps.model(run)
    shown, *every = scored_dimensions(model, axes)
    return map_quality.retained_neighbours(model, shown) if every else None


@cached(max_entries=128)
def _picture_metrics(run: str, axes: View) -> dict[str, Metric]:
    """Metrics of positions in two dimensions, each from at most a few thousand rows."""
    from lvmcore.evaluation.map_dimensions import scored_dimensions
    from lvmcore.evaluation.map_quality import position_metrics

    retained = retained_neighbours(run, axes)
    if retained is None:
        return {}
    model = fitted_maps.model(run)
    shown = scored_dimensions(model, axes)[:1]
    found = position_metrics(model, fitted_maps.fitted_dataset(run), shown)
    return {"retained_neighbours": retained, **found}


def learning_curve_spec(spec: JobSpec, sizes: Sequence[int], repeats: int) -> JobSpec:
    """The learning curve of a fit; see ``lvmcore.jobs.learning_curve.learning_curve_of``.

    Raises:
        ConfigError: the sizes or the repeats cannot be used.
        UnsupportedError: the model predicts neither classes nor a number of new rows.
    """
    from lvmcore.jobs.learning_curve import learning_curve_of

    return learning_curve_of(spec, sizes, repeats)


def learning_curve_job(spec: JobSpec) -> Job | None:
    """The newest learning curve of a fit, whatever its sizes, be it under way or ended.

    Args:
        spec: the fit; or a learning curve of it, to look for those sizes and repeats alone.
    """
    designs = dict.fromkeys(
        (job.spec.sizes, job.spec.repeats) for job in server.store().list("learning curve")
    )
    if spec.sizes:
        designs = {(spec.sizes, spec.repeats): None}
    found = [
        server.store().find(learning_curve_spec(spec, *design), failed=True, stopped=True)
        for design in designs
    ]
    known = [job for job in found if job is not None]
    return max(known, key=lambda job: job.submitted, default=None)


@cached(max_entries=64)
def rows_to_learn_from(run: str, repeats: int) -> int:
    """The largest number of rows of a learning curve of a run.

    Raises:
        DataError: the run or its dataset does not exist, or its rows cannot be used.
    """
    from lvmcore.jobs import learning_curve

    spec = server.store().get(run).spec
    dataset = fitted_maps.stored_dataset(spec.dataset)
    return learning_curve.rows_to_learn_from(dataset, spec, repeats)


def start_learning_curve(spec: JobSpec) -> str:
    """Submit a learning curve, or resume the one that was stopped, unless it is there.

    Args:
        spec: from ``learning_curve_spec``; its dataset is stored.

    Returns:
        Id of the run.

    Raises:
        ConfigError: the queue is full.
        DataError: the disk is full.
    """
    with _submission:
        found = learning_curve_job(spec)
        if found is not None and found.resumable:
            server.store().resume(found.id)
            run = found.id
        elif found is None or found.status == "failed":
            run = server.store().submit(spec)
        else:
            return found.id
    server.launcher()
    return run


def learning_curve(run: str) -> LearningCurve:
    """The fits of a learning curve that are done; none before the first.

    Raises:
        DataError: the run does not exist, or the file cannot be read.
    """
    from lvmcore.evaluation.learning_curves import LearningCurve

    path = server.store().job_folder(run).files.learning_curve
    return LearningCurve.from_json(read_json(path)) if path.is_file() else LearningCurve()


def start_score(job: Job) -> str:
    """Submit the scoring of a run's model and settings on held-out rows, unless it exists.

    Returns:
        Id of the scoring run.
    """
    found = server.store().find(_score_spec(job))
    if found is not None:
        return found.id
    run = server.store().submit(_score_spec(job))
    server.launcher()
    return run


def start_label_score(job: Job) -> None:
    """Submit the scoring of a run that used the labels, once and if its fit was not long.

    The 1-NN accuracy of such a map needs rows whose labels the fit has not seen. If the dataset
    holds none out, a fit to 80 % of the rows measures it, in about the time of the fit.

    Args:
        job: the run.
    """
    from lvmcore.evaluation.scoring import can_be_scored
    from lvmcore.models import MODELS

    if job.spec.model not in MODELS:  # it predicts a target
        return
    can = MODELS[job.spec.model].capabilities
    due = job.status == "done" and job.stage == "finished" and job.has_model
    if not due or can.labels == "none" or not can_be_scored(can):
        return
    if "held_out_knn_accuracy" in job.metrics or (job.seconds or 0) > LONGEST_FIT:
        return
    with _submission, suppress(LatentboardError, OSError):  # a full queue: the button remains
        attempted = server.store().find(_score_spec(job), failed=True, stopped=True)
        if attempted is None and server.store().writable:
            start_score(job)


def _score_spec(job: Job) -> JobSpec:
    spec = job.spec
    return JobSpec(
        dataset=spec.dataset,
        dataset_name=spec.dataset_name,
        model=spec.model,
        parameters=spec.parameters,
        name=f"Score of {spec.name}",
        kind="score",
    )
