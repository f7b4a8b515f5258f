"""Curves of the bound and its terms, of several runs, as one tidy table."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from lvmcore.runs.store import Store

__all__ = ["BOUND", "curves_frame"]

#: Value of the column ``term`` for the whole bound.
BOUND = "bound"

_COLUMNS = ("run_id", "run", "dataset", "model", "start", "step", "seconds", "term", "value")


def curves_frame(store: Store, ids: Iterable[str]) -> pd.DataFrame:
    """The curves of runs, one value per row.

    Each recorded step has one row for the whole bound, whose ``term`` is "bound", and one for each
    named term; the terms add up to the bound. A fit records every step, or about fifty a second
    if it is quicker than that.

    Args:
        store: the store that holds the runs.
        ids: ids of the runs, in the order of the table.

    Returns:
        Columns ``run_id``; ``run``, its name; ``dataset``, the name of the data; ``model``, its
        key; ``start``, the number of the fit's start, from 1; ``step``; ``seconds`` since the fit
        began; ``term``; and ``value``, nats, missing if it was not finite.

    Raises:
        DataError: there is no such run.
    """
    rows = []
    for name in ids:
        job = store.get(name)
        about = (name, job.name, job.spec.dataset_name, job.spec.model)
        for event in store.events(name):
            step = event.step
            at = (*about, step.start, step.iteration, step.seconds)
            rows.append((*at, BOUND, step.objective))
            rows += [(*at, term, value) for term, value in step.terms.items()]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    kinds = {"start": "int64", "step": "int64", "seconds": "float64", "value": "float64"}
    return frame.astype(kinds)
