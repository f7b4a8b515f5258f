"""Files of the rows of large maps: served by the digest of their content, and kept for a while."""

from collections import OrderedDict

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.web import row_files


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_files", OrderedDict())


def test_a_file_is_served_at_the_address_of_its_content() -> None:
    client = TestClient(Starlette(routes=[row_files.route()]))
    one, other = row_files.add(b"\x00\x01\xff"), row_files.add(b"other")
    assert one != other
    assert row_files.add(b"\x00\x01\xff") == one
    answer = client.get(one)
    assert (answer.status_code, answer.content) == (200, b"\x00\x01\xff")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["cache-control"] == "private, max-age=86400, immutable"
    absent = client.get(f"{row_files.FOLDER}absent")
    assert (absent.status_code, absent.text) == (
        404,
        "This file is no longer kept: load the page again.",
    )


def test_the_files_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "MOST_BYTES", 25)
    client = TestClient(Starlette(routes=[row_files.route()]))
    first, second = row_files.add(b"1" * 10), row_files.add(b"2" * 10)
    row_files.add(b"1" * 10)
    third = row_files.add(b"3" * 10)
    assert [client.get(one).status_code for one in (first, second, third)] == [200, 404, 200]
    large = row_files.add(b"4" * 100)
    assert [client.get(one).status_code for one in (first, third, large)] == [404, 404, 200]
