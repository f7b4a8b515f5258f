"""A run of the command line in this process, and the shards that its rows may be in."""

from __future__ import annotations

from collections.abc import Callable

from lvmcore.data.dataset import Dataset
from lvmcore.distributed.choice import check_shards
from lvmcore.distributed.shards import ShardLostError
from lvmcore.errors import ConfigError
from lvmcore.jobs.run_job import run_job
from lvmcore.models import REGISTRY, AnyModel
from lvmcore.results import FitStep
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import JobState, Reason

__all__ = ["check_model_shards", "run_here"]

#: Times that a fit of this process loses a shard at most.
MOST_LOSSES = 3


def run_here(
    folder: JobFolder,
    dataset: Dataset,
    should_stop: Callable[[], Reason | None],
    on_step: Callable[[FitStep], None],
) -> JobState:
    """The run in this process; where a shard is lost, on from its last checkpoint.

    Raises:
        ShardLostError: shards were lost again and again.
    """
    for _ in range(MOST_LOSSES):
        try:
            return run_job(folder, lambda: dataset, should_stop, on_step=on_step)
        except ShardLostError as error:
            lost = error
            folder.requeue()
    folder.give_up("interrupted", str(lost))
    raise lost


def check_model_shards(shards: int, model: AnyModel) -> None:
    """Check that the rows of a fit of a model can be in so many shards.

    Raises:
        ConfigError: they cannot.
    """
    if shards == 0:
        return
    check_shards(shards)
    if not model.capabilities.shards:
        able = [key for key, d in REGISTRY.declarations.items() if d.capabilities.shards]
        raise ConfigError(
            f"--shards {shards} cannot be used with {model.key}: a fit over several processes is "
            f"one of {', '.join(sorted(able))}."
        )
