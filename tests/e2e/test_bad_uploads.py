"""Files that are no table: a message that helps, and nothing is lost."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.dashboard import Dashboard

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + bytes(range(64))
RAGGED = b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n1,2,3\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that are no table."""
    (tmp_path / "empty.csv").touch()
    (tmp_path / "picture.csv").write_bytes(PNG)
    (tmp_path / "ragged.csv").write_bytes(RAGGED)
    (tmp_path / "header.csv").write_bytes(b"a,b,c\n")
    return tmp_path


def test_bad_files_are_refused_and_the_data_stay(dashboard: Dashboard, folder: Path) -> None:
    dashboard.open()
    dashboard.sample("Iris (150 rows)")
    dashboard.says("150 rows, 4 features, label with 3 classes")
    for file, message in {
        "empty.csv": "'empty' is empty: it has no data.",
        "picture.csv": "'picture' is a PNG image, whatever its name says.",
        "ragged.csv": "'ragged' has rows of different length: line 3 has 2, line 4 has 4.",
        "header.csv": "'header' has a header ('a, b, c') and no rows below it.",
    }.items():
        dashboard.upload(folder / file)
        dashboard.says(message)
        dashboard.says("The data below are the previous ones.")
        dashboard.says("150 rows, 4 features, label with 3 classes")
        expect(dashboard.page.get_by_role("alert")).to_have_count(1)
        dashboard.no_traceback()

    dashboard.to_fit()
    dashboard.says("iris: 150 rows, 4 features, label species with 3 classes.")


def test_a_ragged_file_is_read_once_it_is_mended(dashboard: Dashboard, folder: Path) -> None:
    mended = folder / "mended" / "ragged.csv"
    mended.parent.mkdir()
    mended.write_bytes(b"a;b;c\n1,5;2;3\n4;5,25;6\n7;8;9,125\n")
    dashboard.open()
    dashboard.upload(folder / "ragged.csv")
    dashboard.says("'ragged' has rows of different length")
    dashboard.upload(mended)
    dashboard.says("3 rows, 3 features")
    expect(dashboard.page.get_by_role("alert")).to_have_count(0)
    expect(dashboard.page.get_by_text("semicolon", exact=True)).to_be_visible()


def test_a_script_in_a_name_is_text(dashboard: Dashboard, folder: Path) -> None:
    """Names of files and columns are the user's: they show as they are, and fetch nothing."""
    fetched: list[str] = []
    dashboard.page.on("request", lambda request: fetched.append(request.url))
    name = "![x](http://attacker.test/a.png)"
    file = folder / "plain.csv"
    file.write_text(
        f"{name},<img src=http://attacker.test/b.png>,class\n"
        + "".join(f"{i},{i * i % 7},{'ab'[i % 2]}\n" for i in range(20))
    )
    dashboard.open()
    dashboard.upload(file)
    dashboard.says("20 rows, 2 features, label with 2 classes")
    dashboard.to_fit()
    dashboard.settled()
    assert not [url for url in fetched if "attacker.test" in url]
