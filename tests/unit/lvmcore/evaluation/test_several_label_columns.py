"""Runs on tables with several label columns: fits, figures, new rows, and models that take one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import LDGD, load
from lvmcore.data import Dataset, Table
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.errors import DataError
from lvmcore.evaluation.scoring import scoring_split
from lvmcore.jobs.fitting import training_rows
from lvmcore.jobs.impute import completed_table
from lvmcore.jobs.run_job import run_job
from lvmcore.models import MODELS
from lvmcore.prediction.label_columns import label_columns
from lvmcore.prediction.new_table import NewTableRoles, propose_new_table_roles, read_new_table
from lvmcore.prediction.placement import labels_of, most_probable, of_label_column, place_rows
from lvmcore.recommend.latent_models import summarise
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.python_snippet import snippet
from tests.unit.lvmcore.runs.fitting import ran

SMALL = {"n_components": 2, "n_inducing": 8, "max_iter": 30}


def frame(n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind, size = np.arange(n) % 3, rng.integers(0, 2, n)
    columns = {
        "length": 2.0 * (kind == 0) - 2.0 * (kind == 1),
        "width": 2.0 * (kind == 2),
        "mass": 3.0 * size,
        "depth": -2.0 * size,
    }
    noisy = {name: values + 0.3 * rng.standard_normal(n) for name, values in columns.items()}
    labels = {"kind": np.array(["a", "b", "c"])[kind], "size": np.array(["big", "small"])[size]}
    return pd.DataFrame(noisy | labels)


@pytest.fixture
def table() -> Table:
    rows = frame()
    rows.loc[[4, 9], "size"] = None
    return Table.from_frame(rows, name="finds")


@pytest.fixture
def dataset(table: Table) -> Dataset:
    return table.dataset(label=["kind", "size"], hold_out=0.25)


def run(
    dataset: Dataset, path: Path, model: str, kind: str = "fit", **settings: object
) -> JobFolder:
    spec = JobSpec(dataset.digest, dataset.name, model, settings, kind=kind)  # type: ignore[arg-type]
    with JobFolder.create(path, spec, queued=False) as folder:
        state = run_job(folder, lambda: dataset, lambda: None)
    assert state.status == "done", state.message
    return folder


# ---- datasets ----------------------------------------------------------------------------------


def test_a_dataset_holds_every_label_column(dataset: Dataset) -> None:
    assert list(dataset.label_columns) == ["kind", "size"]
    assert dataset.label_name == "kind"
    assert dataset.label_classes("size") == ("big", "small")
    assert dataset.feature_names == ("length", "width", "mass", "depth")
    assert "2 rows have no label in 'size'; they are kept." in dataset.notes
    assert isinstance(dataset.y, pd.DataFrame)
    assert dataset.y["size"].isna().sum() == 2
    part = dataset.subset(np.arange(4, 8))
    assert part.more_labels["size"].tolist() == dataset.more_labels["size"][4:8].tolist()
    alone = dataset.select_label("size")
    assert alone.label_name == "size"
    assert alone.y is alone.labels


def test_each_combination_of_classes_is_held_out_alike(dataset: Dataset) -> None:
    joint = [f"{a} {b}" for a, b in zip(*dataset.label_columns.values(), strict=True)]
    share = pd.Series(dataset.held_out).groupby(joint).agg(["mean", "size"])
    whole = share[share["size"] >= 6]
    assert len(whole) == 6
    assert whole["mean"].between(0.1, 0.4).all()


def test_the_folder_of_a_dataset_keeps_them(dataset: Dataset, tmp_path: Path) -> None:
    again = load_dataset(save_dataset(dataset, tmp_path / "data"))
    assert again.digest == dataset.digest
    assert again.more_labels["size"].tolist() == dataset.more_labels["size"].tolist()


def test_further_labels_are_part_of_what_a_dataset_is(table: Table) -> None:
    digests = {
        table.dataset(features=["mass"], label=label).digest
        for label in ("kind", ["kind"], ["kind", "size"], ["size", "kind"])
    }
    assert len(digests) == 3  # one name in a list is that name


def test_a_folder_that_knows_of_one_label_only_is_read(table: Table, tmp_path: Path) -> None:
    one = table.dataset(label="kind")
    path = save_dataset(one, tmp_path / "data") / "dataset.json"
    text = path.read_text(encoding="utf-8")
    assert '"more_labels": [],' in text
    path.write_text(text.replace('"more_labels": [],', ""), encoding="utf-8")
    assert load_dataset(path.parent).digest == one.digest


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"label": ["kind", "colour"]}, "There is no column 'colour'"),
        ({"label": ["kind", "mass"], "features": ["mass"]}, "'mass' is both a feature and"),
    ],
)
def test_columns_that_cannot_be_labels(
    table: Table, choice: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        table.dataset(**choice)  # type: ignore[arg-type]


# ---- fits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["ldgd", "fast_ldgd"])
def test_a_fit_is_measured_by_each_label(key: str, dataset: Dataset, tmp_path: Path) -> None:
    folder = run(dataset, tmp_path / "run", key, **SMALL)
    model = load(folder.files.model)
    assert model.label_names_ == ("kind", "size")
    map_ = pd.read_parquet(folder.files.embedding)
    assert list(map_)[:3] == ["row_id", "kind: label", "size: label"]
    held_out = dataset.subset(dataset.held_out)
    X = pd.DataFrame(held_out.X, columns=list(held_out.transformed_names))
    metrics, predicted = folder.metrics(), model.predict(X)
    for place_, (key_, name) in enumerate(
        [("held_out_accuracy", "kind"), ("held_out_accuracy: size", "size")]
    ):
        truth = held_out.label_columns[name]
        known = np.array([label is not None for label in truth])
        expected = np.mean(predicted[known, place_] == truth[known])
        assert metrics[key_].value == pytest.approx(expected)
        assert metrics[key_].label == f"held-out accuracy, {name}"
        assert f"{known.sum()} of these have a label" in metrics[key_].protocol
    assert {"held_out_ece", "held_out_ece: size"} <= set(metrics)


@pytest.mark.parametrize("key", ["supervised_vae", "lda"])
def test_a_model_for_one_label_takes_the_first_and_says_so(
    key: str, table: Table, tmp_path: Path
) -> None:
    dataset = table.dataset(label=["kind", "size"])
    settings = {"max_iter": 5} if key == "supervised_vae" else {}
    folder = run(dataset, tmp_path / "run", key, **settings)
    said = "learns from one label column: 'kind' is used, and not 'size'."
    assert any(said in note for note in folder.state().notes)
    assert load(folder.files.model).classes_.tolist() == ["a", "b", "c"]
    assert list(pd.read_parquet(folder.files.embedding))[:2] == ["row_id", "label"]


def test_a_map_without_labels_is_measured_against_each(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label=["kind", "size"])
    metrics = run(dataset, tmp_path / "run", "pca", n_components=2).metrics()
    alone = run(dataset.select_label("size"), tmp_path / "alone", "pca", n_components=2).metrics()
    assert metrics["knn_accuracy"].name == "1-NN accuracy, kind, dimensions 1 and 2"
    assert metrics["knn_accuracy: size"].value == alone["knn_accuracy"].value
    assert metrics["silhouette: size"].value == alone["silhouette"].value


def test_a_score_is_of_each_label(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label=["kind", "size"])
    metrics = run(dataset, tmp_path / "run", "ldgd", "score", **SMALL).metrics()
    separation = ("held_out_knn_accuracy", "held_out_silhouette")
    for key in (*separation, "held_out_accuracy", "held_out_ece"):
        assert metrics[key].label.endswith(", kind")
        assert metrics[f"{key}: size"].label.endswith(", size")
    assert metrics["held_out_knn_accuracy: size"].value is not None


def test_the_program_of_a_run_gives_the_model_every_label(store: Store, dataset: Dataset) -> None:
    job = store.get(ran(store, dataset, "ldgd", **SMALL))
    printed: list[float] = []
    exec(snippet(job, store.home), {"print": printed.append})
    assert printed == [pytest.approx(job.elbo)]


def test_the_classes_that_count_are_those_of_the_labels_that_a_model_learns_from(
    dataset: Dataset,
) -> None:
    assert summarise(dataset).classes_for(LDGD.capabilities) == (3, 2)
    assert summarise(dataset).classes_for(MODELS["lda"].capabilities) == (3,)
    assert summarise(dataset.select_label("size")).classes_for(LDGD.capabilities) == (2,)


def test_a_filled_table_has_every_label(table: Table) -> None:
    rows = table.dataset(label=["kind", "size"])
    X = rows.X.copy()
    X[7, 2] = np.nan
    gaps = replace(rows, X=X)
    named = pd.DataFrame(X, columns=list(rows.transformed_names))
    filled = completed_table(LDGD(**SMALL).fit(named, gaps.y), gaps)  # type: ignore[arg-type]
    assert list(filled)[:4] == ["row_id", "kind: label", "size: label", "length"]
    assert filled["size: label"].isna().sum() == 2
    assert filled.loc[7, "mass imputed"]


# ---- new rows ----------------------------------------------------------------------------------


@pytest.fixture
def fitted(table: Table) -> tuple[LDGD, Dataset]:
    rows, _ = training_rows(table.dataset(label=["kind", "size"]), LDGD)
    X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))
    return LDGD(**SMALL).fit(X, rows.y), rows  # type: ignore[arg-type]


def test_new_rows_get_probabilities_of_each_label(fitted: tuple[LDGD, Dataset]) -> None:
    model, rows = fitted
    new = frame(20, seed=5).rename(columns={"size": "Size"})
    new.loc[0, "kind"] = "unheard of"
    table = Table.from_frame(new, name="new")
    roles = propose_new_table_roles(model, table, rows)
    assert roles.labels == ("kind", "Size")
    found = read_new_table(model, table, rows, roles)
    assert found.unknown_labels == ("kind = unheard of",)
    placed = place_rows(model, found.dataset, rows)
    probability = model.predict_proba(new[list(rows.transformed_names)])
    for name, p, column in zip(("kind", "size"), probability, label_columns(model), strict=True):
        np.testing.assert_allclose(placed.frame[f"{name}: probability"], p.max(axis=1))
        for k, level in enumerate(column.classes):
            np.testing.assert_allclose(placed.frame[f"{name}: probability of {level}"], p[:, k])
    assert placed.frame["size: label"].tolist() == new["Size"].tolist()
    predicted = placed.frame["kind: predicted"]
    assert placed.metrics["accuracy"].value == np.mean(predicted == new["kind"])
    assert placed.metrics["accuracy"].label == "accuracy, kind"
    assert placed.metrics["accuracy: size"].label == "accuracy, size"


def test_a_placement_can_be_seen_by_one_label(fitted: tuple[LDGD, Dataset]) -> None:
    model, rows = fitted
    whole = most_probable(place_rows(model, rows, rows).frame, 0.8)
    assert labels_of(whole) == ["kind", "size"]
    one = of_label_column(whole, "size")
    assert list(one) == [
        *("row_id", "label", "z1", "z2", "z1_sd", "z2_sd", "predicted", "decided"),
        *("probability", "probability of big", "probability of small", "surprise", "unusual"),
    ]
    np.testing.assert_array_equal(one["decided"], whole["size: probability"] >= 0.8)
    assert labels_of(one) == [""]
    assert of_label_column(one, "").equals(one)


def test_labels_to_compare_with_are_those_of_the_model(fitted: tuple[LDGD, Dataset]) -> None:
    model, rows = fitted
    table = Table.from_frame(frame(8).rename(columns={"size": "colour"}), name="new")
    assert propose_new_table_roles(model, table, rows).labels == ("kind",)
    assert (
        read_new_table(model, table, rows, NewTableRoles(label="kind")).dataset.label_name == "kind"
    )
    with pytest.raises(DataError, match=r"'colour' cannot be compared with.*'kind', 'size'"):
        read_new_table(model, table, rows, NewTableRoles(label="kind", more_labels=("colour",)))


def test_a_model_of_one_label_compares_with_one(table: Table) -> None:
    rows = table.dataset(label="kind")
    X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))
    model = LDGD(**SMALL | {"max_iter": 2}).fit(X, rows.y)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="learned from one label column, and 2 were chosen"):
        read_new_table(model, table, rows, NewTableRoles(label="kind", more_labels=("size",)))


def test_a_fit_to_the_rest_is_left_a_row_of_each_class_of_each_label() -> None:
    table = frame()
    for rare in range(0, 60, 3):
        table["size"] = np.where(np.arange(60) == rare, "big", "small")
        dataset = Table.from_frame(table).dataset(label=["kind", "size"])
        kept, held = scoring_split(dataset, LDGD)
        assert kept.label_classes("size") == ("big", "small")
        assert 11 <= len(held) <= 12


def test_rare_combinations_are_held_out_too() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((300, 3)), columns=["p", "q", "r"])
    for name in ("a", "b"):
        table[name] = [f"{name}{i}" for i in rng.integers(0, 30, 300)]
    found = Table.from_frame(table).dataset(
        label=["a", "b"], features=["p", "q", "r"], hold_out=0.2
    )
    assert found.held_out is not None
    assert 56 <= found.held_out.sum() <= 60
    kept = found.subset(~found.held_out)
    for name in ("a", "b"):
        assert kept.label_classes(name) == found.label_classes(name)
