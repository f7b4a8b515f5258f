"""A server that dies under a fit, and the fit that goes on in the next one."""

import re
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Page, expect

from lvmcore.data import load_sample, propose_label
from lvmcore.runs import JobSpec, Store
from tests.e2e.dashboard import BOUND, PATIENCE_MS, Dashboard
from tests.e2e.server import running

SETTINGS = {"n_components": 3, "n_inducing": 40, "max_iter": 1500, "learning_rate": 0.01}


def test_a_fit_goes_on_after_its_server_was_killed(page: Page, tmp_path: Path) -> None:
    table = load_sample("wine")
    dataset = table.dataset(label=propose_label(table))
    store = Store(tmp_path / "home")
    store.datasets.put(dataset)
    run = store.submit(JobSpec(dataset.digest, "wine", "bayesian_gplvm", SETTINGS))

    with running(tmp_path) as server:
        seen = Dashboard(page, server)
        seen.open("fit", run=run)
        expect(page.locator(f'[aria-label="{BOUND}"] canvas')).to_be_visible(timeout=PATIENCE_MS)
        page.goto("about:blank")  # a page whose server is gone says so in the console
        server.process.kill()
        server.process.wait()

    with running(tmp_path) as server:
        seen = Dashboard(page, server)
        seen.open("fit", run=run)
        seen.says(re.compile(r"interrupted in"))
        seen.says(re.compile(r"Continues after step \d+|Starts from the first step"))
        before = store.get(run)
        assert before.status == "interrupted"
        seen.button("Resume").click()
        expect(seen.button("Cancel")).to_be_visible(timeout=PATIENCE_MS)
        seen.says(re.compile(r"step \d+ of at most 1500"))
        steps = [event.step.iteration for event in store.events(run)]
        assert all(one < two for one, two in pairwise(steps))
        seen.button("Cancel").click()
        seen.says(re.compile(r"cancelled in"))
        expect(seen.button("Resume")).to_be_visible()
        page.goto("about:blank")
    after = store.get(run)
    assert (after.status, after.attempt) == ("cancelled", 2)
    assert (after.checkpoint_step or 0) >= (before.checkpoint_step or 0)
