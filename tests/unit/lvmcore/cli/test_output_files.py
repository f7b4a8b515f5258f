"""What a person takes away of runs: curves, pictures, and a program that repeats a run."""

import io
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.export.curves import curves_frame
from lvmcore.export.map_picture import map_picture
from lvmcore.export.tables import to_csv_bytes
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job import Job, now
from lvmcore.runs.python_snippet import snippet
from tests.unit.lvmcore.runs.fitting import ran

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def gappy(toy: Dataset) -> Dataset:
    """The toy with missing cells in three rows, which some models leave out."""
    X = toy.X.copy()
    X[[3, 17, 40], [0, 2, 2]] = np.nan
    return Dataset.from_arrays(X, toy.labels, name='a "toy"\nwith gaps')


# ---- curves ----------------------------------------------------------------------------------


def test_curves_hold_every_number_that_was_written_down(store: Store, toy: Dataset) -> None:
    runs = [
        ran(store, toy, "ldgd", name="=SUM(A1)", n_components=2, n_inducing=5, max_iter=6),
        ran(store, toy, "bayesian_gplvm", n_components=2, n_inducing=5, max_iter=4),
    ]
    store.rename(runs[1], "the other")
    content = to_csv_bytes(curves_frame(store, runs))
    frame = pd.read_csv(io.BytesIO(content))
    assert list(frame.columns) == [
        "run_id", "run", "dataset", "model", "start", "step", "seconds", "term", "value",
    ]  # fmt: skip
    assert frame["run"].unique().tolist() == ["'=SUM(A1)", "the other"]
    assert frame["dataset"].unique().tolist() == ["toy"]
    for run, model in zip(runs, ("ldgd", "bayesian_gplvm"), strict=True):
        one = frame[frame["run_id"] == run]
        assert one["model"].unique().tolist() == [model]
        table = one.pivot(index="step", columns="term", values="value")
        steps = [event.step for event in store.events(run)]
        assert table.index.tolist() == [step.iteration for step in steps]
        assert table["bound"].tolist() == [step.objective for step in steps]
        for term in steps[0].terms:
            assert table[term].tolist() == [step.terms[term] for step in steps]
        parts = table.drop(columns="bound").sum(axis=1)
        np.testing.assert_allclose(parts, table["bound"], rtol=1e-9)


def test_a_run_that_has_not_begun_has_no_curve(store: Store) -> None:
    waiting = store.submit(JobSpec("0" * 64, "toy", "ppca"))
    assert len(curves_frame(store, [waiting])) == 0
    assert to_csv_bytes(curves_frame(store, [])).startswith(b"run_id,run,dataset")
    with pytest.raises(DataError, match="may have been deleted"):
        curves_frame(store, ["0" * 32])


# ---- the picture -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> tuple[LatentVariableModel, Dataset]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 4)) + np.repeat(4 * np.eye(3, 4), 30, axis=0)
    labels: list[str | None] = ["$a$", "_b", "日本 <c>"] * 30
    labels[5:14] = [None] * 9
    dataset = Dataset.from_arrays(X, labels, label_name="$kind$", name="three")
    model = lvmcore.BayesianGPLVM(n_components=3, n_inducing=8, max_iter=30).fit(X)
    return model, dataset


def texts(svg: bytes) -> list[str]:
    """The texts of a picture: matplotlib notes each beside its outlines."""
    return re.findall(r"<!-- (.*?) -->", svg.decode())


@pytest.mark.slow
def test_the_png_has_three_hundred_dots_an_inch(
    fitted: tuple[LatentVariableModel, Dataset],
) -> None:
    content = map_picture(*fitted, (0, 1), "png")
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (1920, 1440)


def test_the_svg_holds_a_mark_for_each_row_and_outlined_letters(
    fitted: tuple[LatentVariableModel, Dataset],
) -> None:
    model, dataset = fitted
    content = map_picture(model, dataset, (2, 0), "svg")
    root = ElementTree.fromstring(content)
    assert not list(root.iter(f"{SVG}text"))
    said = texts(content)
    assert {"latent dimension 3", "latent dimension 1", "(missing)"} <= set(said)
    assert {"$kind$", "$a$", "&lt;c&gt;"} <= {text.removeprefix("□□ ") for text in said}
    (plot,) = [group for group in root.iter(f"{SVG}g") if group.get("id") == "axes_1"]
    groups = [g for g in plot.iter(f"{SVG}g") if g.get("id", "").startswith("PathCollection")]
    marks = sum(len(list(group.iter(f"{SVG}use"))) for group in groups)
    assert marks == len(dataset)
    colours = set(re.findall(r"fill: (#[0-9a-f]{6})", content.decode()))
    assert {"#0072b2", "#e69f00", "#009e73"} <= colours


def test_the_pdf_is_the_same_each_time_and_brings_its_font_along(
    fitted: tuple[LatentVariableModel, Dataset],
) -> None:
    content = map_picture(*fitted, (0, 1), "pdf")
    assert content == map_picture(*fitted, (0, 1), "pdf")
    assert content.startswith(b"%PDF-")
    assert re.findall(rb"/BaseFont /(?:[A-Z]{6}\+)?DejaVuSans\b", content)
    assert b"/FontFile2" in content
    assert b"CreationDate" not in content


def test_the_sd_is_drawn_behind_where_there_is_one_that_varies(
    fitted: tuple[LatentVariableModel, Dataset],
) -> None:
    model, dataset = fitted
    assert any("predictive sd" in text for text in texts(map_picture(
        model, dataset, (0, 1), "svg", sd_behind=True)))  # fmt: skip
    for plain in (lvmcore.PCA(n_components=2), lvmcore.ProbabilisticPCA(n_components=2)):
        picture = map_picture(plain.fit(dataset.X), dataset, (0, 1), "svg", sd_behind=True)
        assert not any("predictive sd" in text for text in texts(picture))


def test_a_map_of_one_dimension_shows_the_rows_in_order(toy: Dataset) -> None:
    model = lvmcore.PCA(n_components=1).fit(toy.X)
    assert {"row", "latent dimension 1"} <= set(texts(map_picture(model, toy, (0, None), "svg")))
    with pytest.raises(ConfigError, match="no latent dimension 2: it has 1"):
        map_picture(model, toy, (0, 1), "png")


def test_many_rows_become_one_image(rng: np.random.Generator) -> None:
    X = rng.standard_normal((10_001, 3))
    model = lvmcore.PCA(n_components=2).fit(X)
    content = map_picture(model, Dataset.from_arrays(X), (0, 1), "svg")
    assert len(content) < 1_000_000
    assert b"<image" in content


# ---- the program -----------------------------------------------------------------------------


def printed(program: str, tmp_path: Path) -> str:
    path = tmp_path / "again.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(lvmcore.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("ldgd", {"n_components": 2, "n_inducing": 6, "max_iter": 15, "noise": "shared"}),
        ("bayesian_gplvm", {"n_components": 3, "n_inducing": 6, "max_iter": 15, "random_state": 7}),
        ("ppca", {"n_components": 2}),
        ("factor_analysis", {"n_components": 3}),
    ],
)
def test_the_program_gets_the_bound_of_the_run(
    store: Store, gappy: Dataset, tmp_path: Path, model: str, settings: dict[str, Any]
) -> None:
    job = store.get(ran(store, gappy, model, name="it's\n a 'run'", **settings))
    program = snippet(job, store.home)
    for name, value in settings.items():
        assert f"    {name}={value!r},\n" in program
    assert "random_state=" in program
    assert "learning_rate" not in program  # as by default
    assert job.elbo is not None
    assert float(printed(program, tmp_path)) == pytest.approx(job.elbo, rel=1e-12)


def test_without_a_home_the_program_finds_the_store_by_the_environment(store: Store) -> None:
    program = snippet(store.get(store.submit(JobSpec("0" * 64, "toy", "ppca"))))
    assert "Store().datasets.get(" in program
    compile(program, "again.py", "exec")


def make(**parts: Any) -> Job:
    spec = JobSpec("0" * 64, "toy", "ldgd", {"random_state": None})
    return Job(id="0" * 32, spec=spec, stage="finished", submitted=now(), **parts)


def test_the_program_says_what_it_cannot_repeat() -> None:
    said = snippet(make(status="cancelled"))
    assert "had no seed" in said
    assert "stopped before its end (cancelled)" in said
    assert "random_state=None" in said
    done = snippet(make(status="done"))
    assert "stopped" not in done


def test_a_model_that_is_not_there_is_named(store: Store) -> None:
    with store.own(JobSpec("0" * 64, "toy", "tarot")) as folder:
        job = store.get(folder.path.name)
    with pytest.raises(ConfigError, match="no model 'tarot'"):
        snippet(job)
