"""Maps of the classic methods beside a run: PCA, t-SNE and UMAP of the same rows."""

from __future__ import annotations

import threading
from contextlib import suppress

from app.analysis.tables import model_cards
from app.services import runs, server
from app.services.model_cards import cards
from app.services.tables import table_summary
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job, JobSpec

__all__ = ["METHODS", "MOST_ROWS", "reference_runs"]

#: Methods whose maps are shown beside a run, in this order.
METHODS = ("pca", "tsne", "umap")
#: Most rows for which their fits start without a click.
MOST_ROWS = 5000

#: Held while runs are looked up and submitted, so that two sessions do not start the same fit.
_submission = threading.Lock()


def reference_runs(job: Job, dataset: Dataset, *, start: bool) -> list[str]:
    """Runs of the reference methods on the rows of a run; a missing one is started as a job.

    A method that cannot be fitted to the table is left out, as is one whose fit has failed or was
    cancelled. An interrupted fit is resumed.

    Args:
        job: the run beside which they are shown; its own method is left out.
        dataset: its dataset.
        start: whether missing fits are started.

    Returns:
        Ids of the runs, in the order of METHODS.
    """
    shape = table_summary(dataset)
    known = {card.key: card for card in cards()}
    found = []
    for method in METHODS:
        if method == job.spec.model or model_cards.refusal(known[method], shape) is not None:
            continue
        parameters = known[method].suggest(shape)
        with _submission, suppress(LatentboardError, OSError):  # a full queue or disk
            run = _reference_run(JobSpec(dataset.digest, dataset.name, method, parameters))
            if run is None and start and server.store().writable:
                run = runs.start_fit(dataset, method, parameters)
            if run:
                found.append(run)
    return found


def _reference_run(spec: JobSpec) -> str | None:
    """The run of a method: with the suggested settings, else the last one with a map.

    Returns:
        None if it is to be fitted; "" if its fit did not end well.
    """
    job = server.store().find(spec, failed=True, stopped=True)
    if job is not None and job.status in ("done", "running", "queued"):
        return job.id
    alike = (spec.dataset, spec.model)
    for other in server.store().list():
        if other.status == "done" and (other.spec.dataset, other.spec.model) == alike:
            return other.id
    if job is not None and job.status == "interrupted" and server.store().writable:
        runs.resume(job.id)
        return job.id
    return None if job is None else ""
