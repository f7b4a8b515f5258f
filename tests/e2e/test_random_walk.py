"""Random use of the pages in a real browser; the seeds and steps of a campaign by variables.

``WALK_SEEDS="3 4" WALK_STEPS=200 python -m pytest tests/e2e/test_random_walk.py`` takes other walks
than that of the tests; a failure names the steps that led to it.
"""

import os
from random import Random

import pytest

from tests.e2e.dashboard import Dashboard
from tests.e2e.random_walk import MODELS, RandomWalk, table

STEPS = int(os.environ.get("WALK_STEPS", "30"))
SEEDS = [int(seed) for seed in os.environ.get("WALK_SEEDS", "0").split()]


@pytest.mark.timeout(300 + 30 * STEPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_steps_leave_a_page_and_its_view_whole(dashboard: Dashboard, seed: int) -> None:
    model, settings = MODELS[seed % len(MODELS)]
    run = dashboard.fitted(table(seed), model, **settings)
    walk = RandomWalk(dashboard, run, Random(seed))
    try:
        walk.walk(STEPS)
    except AssertionError as error:
        error.add_note("The steps:\n" + "\n".join(walk.steps))
        raise
