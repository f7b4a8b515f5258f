"""Scores of runs: those of the fit, and those of a scoring job on held-out rows."""

from __future__ import annotations

from app.analysis.comparison import comparison_table
from app.analysis.comparison.comparison_table import MapScores
from app.services import server
from lvmcore.metrics.metric import Metric
from lvmcore.runs import Job, JobSpec


def map_scores(job: Job) -> MapScores:
    """Scores of a run's map; those not yet measured are None."""
    from lvmcore.models import MODELS

    score = server.store().find(_score_spec(job), failed=True)
    return comparison_table.map_scores(job, score, MODELS[job.spec.model].capabilities)


def score_values(job: Job) -> list[Metric]:
    """All metrics of a run: those of the fit, then those of its scoring job."""
    score = server.store().find(_score_spec(job))
    more = {} if score is None else score.metrics
    return [*job.metrics.values(), *(more[key] for key in more if key not in job.metrics)]


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
