"""The order of the levels of a column on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import cli, load
from lvmcore.cli.fit import read_likelihood_options
from lvmcore.runs import Store
from lvmcore.runs.python_snippet import snippet

OPTIONS = ["--no-label", "--model", "bayesian_gplvm", "--one-hot", "dose", "--features", "a,b,dose"]


@pytest.fixture
def csv(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Thirty rows with a dose, whose levels have signs in them."""
    frame = pd.DataFrame(rng.standard_normal((30, 2)), columns=["a", "b"])
    frame["dose"] = np.tile(["<1 mg", "some", ">= 5 mg"], 10)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_options_with_equals_signs_and_hyphens() -> None:
    assert read_likelihood_options(
        ["a=b=negative-binomial", 'x=ordinal("<1" < 1-2 < ">= 5")', "y = Ordinal(low < high)"]
    ) == {
        "a=b": "negative-binomial",
        "x": 'ordinal("<1" < 1-2 < ">= 5")',
        "y": "Ordinal(low < high)",
    }


def test_a_fit_keeps_the_order_and_its_program_repeats_it(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    order = '"<1 mg" < some < ">= 5 mg"'
    command = ["fit", str(csv), *OPTIONS, "--likelihood", f"dose=ordinal({order})"]
    settings = ["column_likelihood=by column", "max_iter=3", "n_inducing=5", "n_components=1"]
    assert cli.main([*command, *(x for s in settings for x in ("--set", s))]) == 0
    assert f"in the order that was set, {order}" in capsys.readouterr().out
    store = Store(tmp_path / "home")
    (job,) = store.list()
    dataset = store.datasets.get(job.spec.dataset)
    assert dataset.feature_names[-3:] == ("dose = <1 mg", "dose = some", "dose = >= 5 mg")
    model = load(store.job_folder(job.id).files.model)
    assert model.column_likelihood_.endswith(f"ordinal({order})")  # type: ignore[union-attr]
    printed: list[float] = []
    exec(snippet(job, store.home), {"print": printed.append})
    assert printed == [pytest.approx(job.elbo, rel=1e-9)]


@pytest.mark.parametrize(
    ("order", "part"),
    [("some < high", "column 'dose' names 'high'"), ('some < "<1 mg"', "lacks '>= 5 mg'")],
)
def test_a_wrong_order_is_refused_before_the_fit(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str, part: str
) -> None:
    out = tmp_path / "run"
    command = ["fit", str(csv), *OPTIONS, "--likelihood", f"dose=ordinal({order})"]
    assert cli.main([*command, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert part in said
    assert "Traceback" not in said
    assert not out.exists()
