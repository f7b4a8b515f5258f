"""The cache of the server: what makes a key, and what a deletion drops."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from app.services import caching, fitted_maps, runs, server
from app.services.caching import cached
from app.state.choices import Upload
from lvmcore.data import Dataset, Table
from lvmcore.errors import DataError
from lvmcore.runs import JobSpec

N_ROWS = 60_000


def table(**changed: float) -> Table:
    """A table longer than what Streamlit hashes whole, with single cells changed."""
    frame = pd.DataFrame({name: np.arange(N_ROWS, dtype=float) for name in "abc"})
    for name, value in changed.items():
        frame.loc[N_ROWS // 2 + 1, name] = value
    return Table.from_frame(frame, name="long")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The attempts of runs, in place of a store."""
    numbers = {"one": 1, "two": 1}
    store = SimpleNamespace(get=lambda run: SimpleNamespace(attempt=numbers[run]))
    monkeypatch.setattr(server, "store", lambda: store)
    return numbers


@pytest.fixture(autouse=True)
def calls() -> list[object]:
    """What the functions below were called for, and not served from the cache."""
    CALLS.clear()
    for function in CLEAR:
        function()
    return CALLS


CALLS: list[object] = []
BEFORE = len(caching._clear_functions)


@cached(max_entries=4)
def mean(dataset: Dataset, column: int) -> float:
    CALLS.append((dataset.digest, column))
    return float(dataset.X[:, column].mean())


@cached(max_entries=4)
def types(table: Table) -> list[str]:
    CALLS.append(table.digest)
    return [str(column.type) for column in table.columns]


@cached(max_entries=4, hash_funcs={Table: attrgetter("digest")})
def n_columns(table: Table) -> int:
    CALLS.append(table.digest)
    return len(table.columns)


@cached(max_entries=4)
def true_rows(mask: np.ndarray) -> int:
    CALLS.append(len(mask))
    return int(mask.sum())


@cached(max_entries=4)
def length(upload: Upload) -> int:
    CALLS.append(upload.name)
    return len(upload.content)


@cached(max_entries=4)
def loaded(run: str) -> object:
    CALLS.append(run)
    return object()


@cached(max_entries=4)
def both(runs: tuple[str, ...], *, scale: float = 1.0) -> tuple[tuple[str, ...], float]:
    CALLS.append((runs, scale))
    return runs, scale


@cached(max_entries=4)
def of_frame(frame: pd.DataFrame) -> int:
    return len(frame)


@cached(max_entries=4)
def failing() -> None:
    CALLS.append("failing")
    raise DataError("There is nothing.")


CLEAR = caching._clear_functions[BEFORE:]


@cached(max_entries=4, depends_on_store=False)
def parsed(text: str) -> object:
    CALLS.append(text)
    return object()


def test_a_dataset_is_known_by_its_digest(calls: list[object]) -> None:
    first, same, other = (
        table(**cells).dataset(features=["a", "b", "c"]) for cells in ({}, {}, {"b": -1.0})
    )
    assert mean(first, 1) == mean(same, 1)
    assert len(calls) == 1
    assert mean(other, 1) != mean(first, 1), "a single cell of a long table counts"
    assert mean(first, 0) == mean(same, column=0)
    assert len(calls) == 3


def test_a_table_is_known_by_its_digest_name_and_types(calls: list[object]) -> None:
    first = table()
    assert types(first) == types(table())
    assert types(first.with_types({"a": "count"}))[0] == "count"
    types(replace(first, name="another"))
    types(table(c=0.5))
    assert len(calls) == 4


def test_a_function_may_leave_the_types_out(calls: list[object]) -> None:
    first = table()
    assert n_columns(first) == n_columns(first.with_types({"a": "count"}))
    assert len(calls) == 1


def test_every_entry_of_a_long_array_counts(calls: list[object]) -> None:
    mask = np.zeros(2_000_000, dtype=np.bool_)
    assert true_rows(mask) == true_rows(mask.copy()) == 0
    mask[1_234_567] = True
    assert true_rows(mask) == 1
    assert true_rows(mask[::2]) == 0
    assert len(calls) == 3


def test_an_upload_is_known_by_its_digest_and_name(calls: list[object]) -> None:
    assert length(Upload("a.csv", "digest", b"12")) == length(Upload("a.csv", "digest", b""))
    length(Upload("b.csv", "digest", b"12"))
    length(Upload("a.csv", "other", b"12"))
    assert len(calls) == 3


def test_a_run_is_known_by_its_home_id_and_attempt(
    calls: list[object], attempts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = loaded("one")
    assert loaded(run="one") is first
    assert loaded("two") is not first
    attempts["one"] = 2
    second = loaded("one")
    assert second is not first
    monkeypatch.setenv("LATENTBOARD_HOME", "elsewhere")
    assert loaded("one") is not second
    assert calls == ["one", "two", "one", "one"]


def test_several_runs_are_known_by_their_attempts(
    calls: list[object], attempts: dict[str, int]
) -> None:
    assert both(("one", "two")) == both(("one", "two"), scale=1.0)
    attempts["two"] = 2
    both(("one", "two"))
    both(("two", "one"))
    both(("one", "two"), scale=2.0)
    assert len(calls) == 4


def test_a_frame_cannot_be_part_of_a_key() -> None:
    with pytest.raises(Exception, match="A data frame of 3 rows cannot be part of a cache's key"):
        of_frame(pd.DataFrame({"a": [1, 2, 3]}))


def test_an_error_is_not_cached(calls: list[object]) -> None:
    for _ in range(2):
        with pytest.raises(DataError, match="There is nothing"):
            failing()
    assert len(calls) == 2


def test_functions_of_equal_arguments_do_not_share_results(attempts: dict[str, int]) -> None:
    assert both(("one",)) == (("one",), 1.0)
    assert loaded("one") is not parsed("one")


def test_what_does_not_depend_on_the_store_is_shared_by_all_homes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = parsed("shared")
    monkeypatch.setenv("LATENTBOARD_HOME", "elsewhere")
    assert parsed("shared") is found


def test_a_deletion_drops_what_depends_on_the_store_alone(
    calls: list[object], fitted: str, home: object
) -> None:
    kept, dropped = parsed("text"), loaded(fitted)
    spec = server.store().get(fitted).spec
    model = fitted_maps.model(fitted)
    server.store().datasets.put(fitted_maps.stored_dataset(spec.dataset))
    with server.store().own(JobSpec(spec.dataset, spec.dataset_name, "pca", {})) as folder:
        another = folder.path.name
    runs.delete_runs([another])
    assert parsed("text") is kept
    assert loaded(fitted) is not dropped
    assert fitted_maps.model(fitted) is not model
