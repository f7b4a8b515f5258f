"""Pages opened by the addresses of runs that version 0.1.0 made, such as ``/latent?run=…``."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.services import server
from tests.compatibility.earlier import facts_of

MAIN = Path(navigation.__file__).with_name("main.py")
PATIENCE_SECONDS = 120.0

#: Which pages an address of that version names, and of which run.
ADDRESSES: tuple[tuple[navigation.PageName, str], ...] = (
    ("fit", "LDGD of birds"),
    ("fit", "cancelled"),
    ("latent", "LDGD of birds"),
    ("latent", "two labels"),
    ("latent", "restarts"),
    ("latent", "PCA of birds"),
    ("generate", "restarts"),
    ("compare", "LDGD of birds"),
    ("impute", "gaps"),
    ("new_rows", "LDGD of birds"),
    ("predict", "mass by SVGP"),
    ("predict", "kind by SVGP"),
    ("runs", "LDGD of birds"),
)


@pytest.fixture(scope="module")
def home(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a dashboard of that version."""
    folder = tmp_path_factory.mktemp("home") / "store"
    shutil.copytree(written / "store", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATENTBOARD_HOME", str(folder))
        yield folder
        server.close()


@pytest.mark.parametrize(("name", "run"), ADDRESSES)
def test_an_address_opens_its_run(
    name: navigation.PageName,
    run: str,
    home: Path,
    written: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LATENTBOARD_HOME", str(home))
    id = facts_of(written)["ids"][run]
    page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
    page.query_params["run"] = id
    page.run()
    page.switch_page(navigation.PAGES[name]).run()
    assert not page.exception
    assert not page.error
    assert not [text.value for text in page.warning if "not there" in text.value]
    assert page.query_params["run"] in (id, [id])
