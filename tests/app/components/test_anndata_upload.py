"""AnnData files on the pages: uploaded, read otherwise, and handed out with a map."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.components import table_upload
from app.services import fitted_maps, placement, server, tables
from app.state.choices import ReadingChoices, Upload
from tests.app.conftest import OpenPage, Wait, fitted_run
from tests.app.shell.test_shell import texts
from tests.app.views.data.test_page import foot, read_again, upload
from tests.unit.lvmcore.data.readers.anndata_files import COUNTS, GENES, annotated, by_anndata

MARKED = ("CD3E", "NKG7", "LYZ", "PPBP")


def matrix(page: AppTest) -> Any:
    """The selectbox of matrices."""
    (box,) = [box for box in page.selectbox if box.label == "Matrix"]
    return box


def plain(words: str) -> str:
    """Text of a page without the strokes that keep Markdown from reading anything into it."""
    return words.replace("\\", "")


def said(page: AppTest) -> str:
    return plain(texts(page.markdown) + texts(page.caption))


def uploaded(page: AppTest) -> AppTest:
    return upload(page, "cells.h5ad", by_anndata("layers"))


def test_an_uploaded_file_is_a_table_of_genes(open_page: OpenPage) -> None:
    page = uploaded(open_page("data"))
    assert not page.exception
    assert not page.error
    assert "12 rows" in foot(page)
    assert "12 rows, 4 features, label with 3 classes" in said(page)
    assert "n_counts, n_genes, doublet, batch (about the row, not ticked)" in said(page)
    page.switch_page(navigation.PAGES["fit"]).run()
    assert "cells" in texts(page.markdown)


def test_what_tells_of_the_cells_is_no_feature_unless_ticked() -> None:
    content = by_anndata("layers")
    table = tables.table(Upload("cells.h5ad", "d" * 64, content), ReadingChoices())
    roles = tables.proposed_roles(table)
    assert (roles.features, roles.label, roles.row_id) == (MARKED, "cell_type", "barcode")


def test_another_matrix_can_be_read(open_page: OpenPage) -> None:
    page = uploaded(open_page("data"))
    offered = ["X, highly variable", "X", "layers/counts, highly variable", "layers/counts"]
    assert matrix(page).options == ["detected", *offered]
    matrix(page).select_index(4)
    read_again(page)
    assert not page.exception
    assert "12 rows, 6 features" in said(page)
    assert matrix(page).index == 4
    assert not [box for box in page.selectbox if box.label in ("Delimiter", "Sheet")]
    matrix(page).select_index(0)
    read_again(page)
    assert "12 rows, 4 features" in said(page)


def test_a_file_with_one_matrix_has_nothing_to_choose() -> None:
    given = Upload("dense.h5ad", "e" * 64, by_anndata("dense"))
    assert not table_upload.has_reading_choices(given, tables.table(given, ReadingChoices()))
    assert not table_upload.has_reading_choices(given, None)


def linked(file: Any) -> None:
    file["raw"] = h5py.SoftLink("/obs")


@pytest.mark.slow
def test_a_broken_file_is_explained_and_the_data_stay(open_page: OpenPage) -> None:
    page = upload(uploaded(open_page("data")), "cut.h5ad", by_anndata("layers")[:9000])
    assert not page.exception
    assert "cannot be read: it is damaged" in plain(page.error[0].value)
    assert "cells" in foot(page)
    page = upload(page, "linked.h5ad", annotated(np.eye(3), linked))
    assert "is a link to another place or file" in plain(page.error[0].value)


@pytest.fixture(scope="module")
def fitted(shared_home: Path) -> str:
    """A run that has ended: probabilistic PCA of the uploaded file."""
    table = tables.table(Upload("cells.h5ad", "f" * 64, by_anndata("layers")), ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    return fitted_run(dataset, "ppca", {"n_components": 2})


def offers(page: AppTest) -> list[str]:
    return [str(button.proto.label) for button in page.get("download_button")]


def test_the_map_is_handed_out_as_annotated_data(fitted: str) -> None:
    model = fitted_maps.model(fitted)
    with h5py.File(io.BytesIO(fitted_maps.embedding_h5ad(fitted))) as file:
        np.testing.assert_array_equal(file["obsm/X_ppca"][:], model.embedding_.mean)
        np.testing.assert_array_equal(file["X"][:], COUNTS[:, [GENES.index(g) for g in MARKED]])
        assert file["obs/_index"].asstr()[:].tolist() == [f"cell-{i}" for i in range(12)]
        digest = server.store().get(fitted).spec.dataset
        assert file["uns/latentboard/dataset"].asstr()[()] == digest


@pytest.mark.parametrize("name", ["latent", "export"])
def test_the_pages_offer_it(
    name: str, fitted: str, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page(name, run=fitted)
    assert "Embedding as H5AD" in offers(page)
    monkeypatch.setattr("app.components.download_buttons.writes_h5ad", lambda: False)
    page.run()
    assert "Embedding as H5AD" not in offers(page)
    assert "Embedding as Parquet" in offers(page)


@pytest.mark.slow
def test_placed_rows_are_handed_out_too(fitted: str, wait: Wait) -> None:
    rows = fitted_maps.fitted_dataset(fitted)
    placing = wait(placement.start_placement(fitted, rows)).id
    placed = placement.placements(placing)
    with h5py.File(io.BytesIO(placement.placements_h5ad(placing, 0.5))) as file:
        np.testing.assert_array_equal(file["obsm/X_ppca"][:], placed[["z1", "z2"]])
        np.testing.assert_array_equal(file["obs/unusual"][:], placed["unusual"])
        np.testing.assert_array_equal(file["X"][:], rows.X)
