"""The notebook that repeats a run."""

from __future__ import annotations

import json
from typing import Any

import matplotlib
import pytest

from lvmcore.data import Dataset
from lvmcore.export.notebook import run_notebook
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.python_snippet import snippet


@pytest.fixture
def run(store: Store, toy: Dataset) -> str:
    with store.own(JobSpec(store.datasets.put(toy), toy.name, "ppca", {"n_components": 2})) as job:
        run_job(job, lambda: toy, lambda: None, store=store)
    return job.path.name


def notebook(store: Store, run: str) -> dict[str, Any]:
    job = store.get(run)
    found: dict[str, Any] = json.loads(run_notebook(job, snippet(job, store.home)))
    return found


def test_its_cells_repeat_the_run_and_draw_the_map(
    store: Store, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    matplotlib.use("Agg")
    cells = [cell for cell in notebook(store, run)["cells"] if cell["cell_type"] == "code"]
    space: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), space)
    elbo = store.get(run).elbo
    assert elbo is not None
    assert float(capsys.readouterr().out) == pytest.approx(elbo, rel=1e-12)
    axes = space["plt"].gca()
    assert len(axes.collections[0].get_offsets()) == 60
    space["plt"].close("all")


def test_it_has_the_form_of_a_notebook(store: Store, run: str) -> None:
    content = notebook(store, run)
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in content["cells"]]
    assert len(set(ids)) == len(ids) >= 6
    for cell in content["cells"]:
        keys = {"id", "cell_type", "metadata", "source"}
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == keys | code
        assert isinstance(cell["source"], list)


def test_a_name_is_no_markup(store: Store, run: str) -> None:
    store.rename(run, "<img src=x> [a](b) *c* $d$")
    title = "".join(notebook(store, run)["cells"][0]["source"])
    assert title == r"# \<img src=x\> \[a\](b) \*c\* \$d\$"
