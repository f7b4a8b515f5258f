"""Python source that reproduces a run."""

from __future__ import annotations

from pathlib import Path

from lvmcore.errors import UnsupportedError
from lvmcore.likelihoods.catalogue import BY_COLUMN
from lvmcore.runs.job import Job

__all__ = ["snippet"]


def snippet(job: Job, home: Path | None = None) -> str:
    """A program that repeats the fit of a run, and prints its bound with the run's own bound.

    With the same versions on the same machine the two are equal. Comments state the exceptions: a
    run without a seed, or one that was stopped early.

    Args:
        job: the run.
        home: folder of its store; None for ``$LATENTBOARD_HOME`` or the default.

    Returns:
        Python source.

    Raises:
        ConfigError: the run's model or a setting of it is unknown here.
        UnsupportedError: its model was fitted in another library.
    """
    if job.spec.origin:
        raise UnsupportedError(
            f"The model of this run was fitted with {job.spec.origin}, so no program here repeats "
            "the fit."
        )
    from lvmcore.runs.model_of_job import make_model

    model = make_model(job.spec)
    cls = type(model)
    package = "lvmcore" if cls.__module__.startswith("lvmcore.models.") else cls.__module__
    defaults = {parameter.name: parameter.default for parameter in cls.parameters()}
    settings = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name == "random_state" or value != defaults[name]
    }
    texts = {name: repr(value) for name, value in settings.items()}
    proposed = settings.get("column_likelihood") == BY_COLUMN
    if proposed:  # those chosen for the columns are kept with the dataset
        texts["column_likelihood"] = "likelihood_text(rows)"
    given = "".join(f"    {name}={text},\n" for name, text in texts.items())
    where = "" if home is None else repr(str(home))
    versions = ", ".join(f"{name} {version}" for name, version in job.spec.versions.items())
    return "\n".join(
        [
            *(f"# {line}" for line in _comments(job, versions)),
            *([] if job.spec.target else ["import pandas as pd", ""]),
            f"from {package} import {cls.__name__}",
            *(["from lvmcore.data.column_likelihoods import likelihood_text"] if proposed else []),
            f"from lvmcore.runs import {'JobSpec, Store' if job.spec.target else 'Store'}",
            _row_selection_import(job),
            "",
            f"dataset = Store({where}).datasets.get(",
            f'    "{job.spec.dataset}"',
            ")",
            *_rows(job, cls.__name__, learns=cls.capabilities.labels != "none"),
            f"model = {cls.__name__}(\n{given})" if given else f"model = {cls.__name__}()",
            "model.fit(X, y)",
            f"print(model.elbo_)  # the run: {_bound(job)}",
            "",
        ]
    )


def _row_selection_import(job: Job) -> str:
    """The import of the function that selects the rows of the fit."""
    if job.spec.target:
        return "from lvmcore.prediction.target_rows import split_for_target"
    return "from lvmcore.jobs.fitting import training_rows"


def _rows(job: Job, model: str, *, learns: bool) -> list[str]:
    """The lines that define X and y of the fit."""
    spec = job.spec
    if not spec.target:
        return [
            f"rows, left_out = training_rows(dataset, {model})",
            "X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))",
            f"y = {'rows.y' if learns else None}",
        ]
    seed = spec.parameters.get("random_state", 0)
    return [
        "spec = JobSpec(",
        f"    dataset.digest, dataset.name, {spec.model!r}, {{'random_state': {seed!r}}},",
        f"    target={spec.target!r}, groups={spec.groups!r}, time={spec.time!r},",
        ")",
        f"rows = split_for_target(dataset, {model}.task, spec)",
        "X, y = rows.X[~rows.held_out], rows.y[~rows.held_out]",
    ]


def _comments(job: Job, versions: str) -> list[str]:
    """The leading comments: run, data, versions and exceptions; names on one line each."""
    name, data = (" ".join(text.split()) for text in (job.name, job.spec.dataset_name))
    lines = [f"Repeats the run {name!r} on the data {data!r}.", f"It ran with {versions}."]
    if job.spec.parameters.get("random_state", 0) is None:
        lines.append("It had no seed, so its random draws cannot be repeated.")
    if job.status in ("cancelled", "interrupted"):
        lines.append(f"It was stopped before its end ({job.status}); this goes on to the end.")
    return lines


def _bound(job: Job) -> str:
    return "no bound" if job.elbo is None else repr(job.elbo)
