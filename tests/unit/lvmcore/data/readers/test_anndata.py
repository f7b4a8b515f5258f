"""H5AD files: as anndata writes them, in older forms, and such as nobody should trust."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from lvmcore.data import (
    ColumnType,
    Table,
    matching_dataset,
    propose_label,
    propose_row_id,
    read_table,
    read_table_sandboxed,
)
from lvmcore.data.readers.sandbox_worker import content_size
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from tests.unit.lvmcore.data.readers.anndata_files import COUNTS, GENES, annotated, by_anndata, text

MARKED = [0, 2, 3, 5]
SMALL = np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 4.0]])


def cells(table: Table, columns: list[str]) -> np.ndarray[Any, Any]:
    return table.frame[columns].to_numpy()


# ---- as anndata writes them ----------------------------------------------------------------------


def test_a_dense_matrix_with_names_alone() -> None:
    table = read_table(by_anndata("dense"), name="dense")
    assert list(table.frame.columns) == ["barcode", *GENES]
    np.testing.assert_array_equal(cells(table, GENES), COUNTS)
    assert {column.type for column in table.columns[1:]} == {ColumnType.COUNT}
    assert table.frame["barcode"].tolist() == [f"cell-{i}" for i in range(12)]
    assert propose_row_id(table) == "barcode"
    assert (table.detected.format, table.detected.sheets) == ("h5ad", ("X",))
    assert table.notes == ()


def test_whole_counts_are_read_where_there_are_any_and_marked_columns_alone() -> None:
    table = read_table(by_anndata("layers"), name="layers")
    genes = [GENES[d] for d in MARKED]
    assert table.detected.sheet == "layers/counts, highly variable"
    np.testing.assert_array_equal(cells(table, genes), COUNTS[:, MARKED])
    assert not {"MS4A1", "GNLY"} & set(table.frame.columns)
    told = " ".join(table.notes)
    assert "first that holds whole counts" in told
    assert "4 of 6 columns were read" in told
    assert "Not read: 'obsm/X_pca'" in told


@pytest.mark.parametrize("matrix", ["X", "layers/counts"])
def test_any_matrix_can_be_asked_for(matrix: str) -> None:
    table = read_table(by_anndata("layers"), sheet=matrix)
    expected = np.log1p(COUNTS.astype(np.float32)) if matrix == "X" else COUNTS
    np.testing.assert_array_equal(cells(table, GENES), expected)
    assert table.detected.sheet == matrix
    assert table.digest != read_table(by_anndata("layers")).digest


def test_raw_counts_come_before_scaled_numbers() -> None:
    table = read_table(by_anndata("raw"))
    assert table.detected.sheet == "raw/X"
    np.testing.assert_array_equal(cells(table, GENES), COUNTS)
    scaled = read_table(by_anndata("raw"), sheet="X")
    genes = [GENES[d] for d in (0, 2, 3)]
    np.testing.assert_allclose(cells(scaled, genes), np.log1p(COUNTS[:, [0, 2, 3]]) - 1, rtol=1e-6)
    assert scaled.column("LYZ").type is ColumnType.NUMERIC


def test_obs_are_labels_and_colours_and_learned_only_where_asked_for() -> None:
    table = read_table(by_anndata("layers"))
    types = {column.name: column.type for column in table.columns if column.is_annotation}
    assert types == {
        "cell_type": ColumnType.CATEGORY,
        "n_counts": ColumnType.COUNT,
        "n_genes": ColumnType.COUNT,
        "doublet": ColumnType.BINARY,
        "batch": ColumnType.BINARY,
        "donor": ColumnType.CATEGORY,
        "leiden": ColumnType.CATEGORY,
    }
    assert table.frame["cell_type"].isna().sum() == table.frame["batch"].isna().sum() - 1 == 3
    np.testing.assert_array_equal(table.frame["n_counts"], COUNTS.sum(axis=1))
    assert table.frame["leiden"].tolist() == [str(i % 3) for i in range(12)]
    assert propose_label(table) == "cell_type"
    dataset = table.dataset(label="cell_type", row_id="barcode")
    assert dataset.feature_names == tuple(GENES[d] for d in MARKED)
    assert "Column 'n_counts' left out: it is an annotation of the row" in " ".join(dataset.notes)
    asked = table.dataset(features=["LYZ", "n_counts"])
    assert asked.feature_names == ("LYZ", "n_counts")
    assert matching_dataset(table, ["n_genes"]).feature_names == ("n_genes",)


def test_another_type_does_not_make_an_observation_a_feature() -> None:
    table = read_table(by_anndata("layers")).with_types({"n_counts": "numeric"})
    assert "n_counts" not in table.dataset().feature_names


@pytest.mark.slow(quick=["dense"])
@pytest.mark.parametrize("name", ["dense", "layers", "raw"])
def test_the_limited_reader_reads_the_same_packed_or_not(name: str) -> None:
    here = read_table(by_anndata(name), name=name)
    for content in (by_anndata(name), gzip.compress(by_anndata(name), mtime=0)):
        there = read_table_sandboxed(content, name=name)
        pd.testing.assert_frame_equal(there.frame, here.frame, check_exact=True)
        assert (there.columns, there.notes) == (here.columns, here.notes)
        assert there.detected.format.startswith("h5ad")
        assert content_size(content, name, 10**9) >= 8 * COUNTS.size


def test_a_file_is_called_without_its_ending(tmp_path: Path) -> None:
    path = tmp_path / "pbmc.h5ad"
    path.write_bytes(by_anndata("dense"))
    assert read_table(path).name == "pbmc"


# ---- forms of the format -------------------------------------------------------------------------


def as_sparse(kind: str, attribute: str) -> Callable[[Any], None]:
    """Puts a sparse matrix in the place of X, named as some version of anndata named it."""

    def change(file: Any) -> None:
        del file["X"]
        found = {"csr": sparse.csr_array, "csc": sparse.csc_array}[kind](SMALL)
        group = file.create_group("X")
        new = attribute == "encoding-type"
        group.attrs[attribute] = f"{kind}_matrix" if new else kind
        group.attrs["shape" if new else "h5sparse_shape"] = found.shape
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(found, part))

    return change


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("attribute", ["encoding-type", "h5sparse_format"])
def test_sparse_is_dense(kind: str, attribute: str) -> None:
    table = read_table(annotated(SMALL, as_sparse(kind, attribute)))
    np.testing.assert_array_equal(cells(table, ["g0", "g1"]), SMALL)


def test_categories_of_anndata_0_7() -> None:
    def change(file: Any) -> None:
        levels = file["obs"].create_group("__categories")
        text(levels, "kind", ["low", "high"])
        file["obs/kind"].attrs["categories"] = levels["kind"].ref

    table = read_table(annotated(SMALL, change, kind=np.array([0, -1, 1], dtype=np.int8)))
    assert table.frame["kind"].iloc[[0, 2]].tolist() == ["low", "high"]
    assert table.frame["kind"].isna().tolist() == [False, True, False]


def test_a_dense_matrix_is_read_block_by_block(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr("lvmcore.data.readers.anndata_matrix._BLOCK", 10)
    X = rng.standard_normal((23, 4)).astype(np.float32)

    def mark(file: Any) -> None:
        file["var"].create_dataset("highly_variable", data=[True, False, True, True])

    content = annotated(X, mark)
    np.testing.assert_array_equal(cells(read_table(content), ["g0", "g2", "g3"]), X[:, [0, 2, 3]])
    whole = read_table(content, sheet="X")
    np.testing.assert_array_equal(cells(whole, ["g0", "g1", "g2", "g3"]), X)


def test_missing_and_infinite_cells_stay_what_they_are() -> None:
    X = np.array([[np.nan, 1.5], [np.inf, 2.5], [0.5, 3.5]])
    table = read_table(annotated(X))
    assert table.column("g0").missing == 1
    assert any("'g0' has 1 infinite value" in note for note in table.notes)
    assert np.isnan(table.dataset().X).sum() == 1


def test_genes_of_one_name_are_told_apart() -> None:
    def twice(file: Any) -> None:
        file["var/_index"][...] = ["TP53", "TP53"]

    table = read_table(annotated(SMALL, twice))
    assert list(table.frame.columns)[1:] == ["TP53", "TP53 (2)"]
    assert any("more than once" in note for note in table.notes)


def test_cells_of_one_name_cannot_name_rows() -> None:
    def twice(file: Any) -> None:
        file["obs/_index"][...] = ["a", "a", "b"]

    assert propose_row_id(read_table(annotated(SMALL, twice))) is None


def test_what_is_no_column_of_a_table_is_left_out_with_a_note() -> None:
    table = read_table(annotated(SMALL, spectra=np.zeros((3, 5)), n=np.arange(3)))
    assert "spectra" not in table.frame.columns
    assert table.frame["n"].tolist() == [0, 1, 2]
    assert any("'spectra' of obs left out" in note for note in table.notes)


def test_a_wide_matrix_without_marks_says_how_to_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lvmcore.data.readers.anndata_matrix.MAX_COLUMNS", 1)
    with pytest.raises(DataError, match=r"3 rows of 2 columns.*highly_variable_genes"):
        read_table(annotated(SMALL))


def test_a_matrix_that_is_too_wide_gives_way_to_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lvmcore.data.readers.anndata_matrix.MAX_COLUMNS", 4)
    assert read_table(by_anndata("raw")).detected.sheet == "X"


def test_a_matrix_that_takes_more_memory_than_is_allowed() -> None:
    with pytest.raises(DataError, match="are read"):
        read_table(annotated(np.ones((2000, 50))), max_bytes=600_000)


def test_a_matrix_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"no matrix 'layers/x'. Its matrices are 'X', 'raw/X'"):
        read_table(by_anndata("raw"), sheet="layers/x")


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'latentboard\[formats\]'"):
        read_table(by_anndata("dense"))


# ---- broken and hostile --------------------------------------------------------------------------


def secret(folder: Path) -> Path:
    """A file beside the uploaded one, which nobody asked to be read."""
    path = folder / "secret.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=SMALL)
        file.create_group("obs")
        text(file, "names", ["a", "b", "c"])
        text(file["obs"], "_index", ["a", "b", "c"])
    return path


def linked(path: str, link: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        if path in file:
            del file[path]
        file[path] = link

    return change


@pytest.mark.parametrize(
    "path", ["X", "obs", "obs/_index", "var/_index", "var", "obs/n", "raw", "layers", "obsm"]
)
@pytest.mark.parametrize("kind", ["external", "soft"])
def test_links_are_not_followed(path: str, kind: str, tmp_path: Path) -> None:
    other = str(secret(tmp_path))
    link = h5py.ExternalLink(other, "/X") if kind == "external" else h5py.SoftLink("/X")
    content = annotated(SMALL, linked(path, link), n=np.arange(3))
    with pytest.raises(DataError, match="is a link to another place or file"):
        read_table(content)


def test_the_limited_reader_follows_no_link_either(tmp_path: Path) -> None:
    link = h5py.ExternalLink(str(secret(tmp_path)), "/X")
    with pytest.raises(DataError, match="is a link to another place or file"):
        read_table_sandboxed(annotated(SMALL, linked("X", link)), name="table")


def test_a_link_inside_a_sparse_matrix_is_not_followed(tmp_path: Path) -> None:
    def change(file: Any) -> None:
        as_sparse("csr", "encoding-type")(file)
        linked("X/data", h5py.ExternalLink(str(secret(tmp_path)), "/X"))(file)

    with pytest.raises(DataError, match="is a link"):
        read_table(annotated(SMALL, change))


def test_numbers_that_lie_in_another_file_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(SMALL.tobytes())

    def outside(file: Any) -> None:
        del file["X"]
        where = [(str(tmp_path / "secret.bin"), 0, SMALL.nbytes)]
        file.create_dataset("X", shape=SMALL.shape, dtype=np.float64, external=where)

    with pytest.raises(DataError, match="is a link to another place or file"):
        read_table(annotated(SMALL, outside))


def test_a_matrix_put_together_of_other_files_is_not_read(tmp_path: Path) -> None:
    def virtual(file: Any) -> None:
        del file["X"]
        layout = h5py.VirtualLayout(SMALL.shape, np.float64)
        layout[:] = h5py.VirtualSource(str(secret(tmp_path)), "X", SMALL.shape)
        file.create_virtual_dataset("X", layout)

    with pytest.raises(DataError, match="is a link to another place or file"):
        read_table(annotated(SMALL, virtual))


def wrong(part: str, values: list[int]) -> Callable[[Any], None]:
    """Spoils a part of a sparse matrix."""

    def change(file: Any) -> None:
        as_sparse("csr", "encoding-type")(file)
        del file["X"][part]
        file["X"].create_dataset(part, data=values)

    return change


def replaced(path: str, values: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[path]
        file.create_dataset(path, data=values)

    return change


def without(path: str) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[path]

    return change


def nameless(file: Any) -> None:
    file["obs"].attrs["_index"] = "gone"


BROKEN = {
    "an index beyond the matrix": annotated(SMALL, wrong("indices", [0, 1, 9, 1])),
    "an index below zero": annotated(SMALL, wrong("indices", [0, 1, -5, 1])),
    "pointers beyond the numbers": annotated(SMALL, wrong("indptr", [0, 1, 3, 99])),
    "pointers that go back": annotated(SMALL, wrong("indptr", [0, 3, 1, 4])),
    "fewer indices than numbers": annotated(SMALL, wrong("indices", [0])),
    "fewer cells than rows": annotated(SMALL, replaced("obs/_index", [b"a", b"b"])),
    "more names than columns": annotated(SMALL, replaced("var/_index", [b"a", b"b", b"c"])),
    "no names of cells": annotated(SMALL, without("obs/_index")),
    "another name for the names": annotated(SMALL, nameless),
    "no obs": annotated(SMALL, without("obs")),
    "no matrix": annotated(None),
    "a matrix of texts": annotated(SMALL, replaced("X", [[b"a", b"b"]] * 3)),
    "a matrix of three dimensions": annotated(SMALL, replaced("X", np.zeros((3, 2, 1)))),
    "a column that is not there": annotated(SMALL, without("obs/n"), n=np.arange(3)),
    "a column that is too short": annotated(SMALL, replaced("obs/n", [1]), n=np.arange(3)),
    "no rows": annotated(np.zeros((0, 2))),
    "no columns": annotated(np.zeros((3, 0))),
    "cut off": by_anndata("layers")[:9000],
    "nothing but the first bytes": b"\x89HDF\r\n\x1a\n" + bytes(100),
    "obs of anndata before 0.7": annotated(
        SMALL, replaced("obs", np.zeros(3, dtype=[("index", "S3"), ("n", "i4")]))
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_refused_in_a_sentence(case: str) -> None:
    with pytest.raises(DataError, match=r"'table'.*(Expected|again|Copy)"):
        read_table(BROKEN[case])


@pytest.mark.parametrize("code", [-2, 2])
def test_a_code_without_its_category_is_refused(code: int) -> None:
    def change(file: Any) -> None:
        group = file["obs"].create_group("kind")
        group.create_dataset("codes", data=np.array([0, code, 1], dtype=np.int8))
        text(group, "categories", ["low", "high"])
        file["obs"].attrs["column-order"] = ["kind"]

    with pytest.raises(DataError, match="damaged"):
        read_table(annotated(SMALL, change))


@pytest.mark.slow
def test_bytes_overwritten_anywhere_end_in_a_table_or_a_sentence(rng: np.random.Generator) -> None:
    """In a process of its own: what HDF5 makes of such bytes is not for this one to find out."""
    whole, outcomes = by_anndata("layers"), set()
    for _ in range(8):
        content = bytearray(whole)
        start = int(rng.integers(100, len(whole) - 200))
        content[start : start + 100] = rng.bytes(100)
        try:
            outcomes.add(type(read_table_sandboxed(bytes(content), name="table")))
        except DataError:
            outcomes.add(DataError)
    assert outcomes == {Table, DataError}


def test_a_file_that_grows_beyond_measure_is_not_unpacked() -> None:
    def zeros(file: Any) -> None:
        del file["X"]
        file.create_dataset("X", shape=(10**7, 2), dtype=np.float64, chunks=(10**6, 2))
        for part, length in (("obs", 10**7), ("var", 2)):
            del file[part]["_index"]
            file[part].create_dataset("_index", shape=(length,), dtype="S1", chunks=(length,))

    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        read_table(annotated(SMALL, zeros))


def test_another_hdf5_file_is_named_as_such(tmp_path: Path) -> None:
    content = secret(tmp_path).read_bytes()
    with pytest.raises(DataError, match=r"without the parts of an AnnData file.*'X', 'names'"):
        read_table(content)
