"""A run as a short Python program that repeats it."""

from __future__ import annotations

from pathlib import Path

import lvmcore
from lvmcore.runs.spec import Job

__all__ = ["snippet"]


def snippet(job: Job, home: Path | None = None) -> str:
    """A program that fits what a run has fitted, and prints the bound beside the run's own.

    With the same versions on the same machine the bound is the same. What of that is not given, as
    for a run without a seed or one that was stopped early, a comment says.

    Args:
        job: the run.
        home: folder of its store; None leaves it to ``$LATENTBOARD_HOME`` or the default.

    Returns:
        Python source.

    Raises:
        ConfigError: the run's model or a setting of it is unknown here.
    """
    from lvmcore.runs.execute import make_model

    model = make_model(job.spec)
    cls = type(model)
    door = "lvmcore" if cls.__name__ in lvmcore.__all__ else cls.__module__
    defaults = {parameter.name: parameter.default for parameter in cls.parameters()}
    settings = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name == "random_state" or value != defaults[name]
    }
    given = "".join(f"    {name}={value!r},\n" for name, value in settings.items())
    learns = cls.capabilities.labels != "none"
    where = "" if home is None else repr(str(home))
    versions = ", ".join(f"{name} {version}" for name, version in job.spec.versions.items())
    return "\n".join(
        [
            *(f"# {line}" for line in _comments(job, versions)),
            "import pandas as pd",
            "",
            f"from {door} import {cls.__name__}",
            "from lvmcore.runs import Store",
            "from lvmcore.runs.execute import rows_to_fit",
            "",
            f"dataset = Store({where}).get_dataset(",
            f'    "{job.spec.dataset}"',
            ")",
            f"rows, left_out = rows_to_fit(dataset, {cls.__name__})",
            "X = pd.DataFrame(rows.X, columns=list(rows.learned_names))",
            f"model = {cls.__name__}(\n{given})" if given else f"model = {cls.__name__}()",
            f"model.fit(X, {'rows.y' if learns else 'None'})",
            f"print(model.elbo_)  # the run: {_bound(job)}",
            "",
        ]
    )


def _comments(job: Job, versions: str) -> list[str]:
    """What to know before the first line of code; user text on one line each."""
    name, data = (" ".join(text.split()) for text in (job.name, job.spec.dataset_name))
    lines = [f"Repeats the run {name!r} on the data {data!r}.", f"It ran with {versions}."]
    if job.spec.parameters.get("random_state", 0) is None:
        lines.append("It had no seed, so its random draws cannot be repeated.")
    if job.status in ("cancelled", "interrupted"):
        lines.append(f"It was stopped before its end ({job.status}); this goes on to the end.")
    return lines


def _bound(job: Job) -> str:
    return "no bound" if job.elbo is None else repr(job.elbo)
