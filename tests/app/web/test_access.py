"""Which addresses are the dashboard's own, seen from the end of a connection."""

import socket

import pytest

from app.web.access import (
    LOOPBACK,
    Access,
    Origin,
    canonical_name,
    is_loopback,
    new_token,
    parse_authority,
    parse_origin,
)

PORT = 8501
LAN = "192.168.1.5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:8501", ("localhost", 8501)),
        ("LocalHost.:8501", ("localhost", 8501)),
        ("127.0.0.1", ("127.0.0.1", 80)),
        ("[::1]:8501", ("::1", 8501)),
        ("[0:0:0:0:0:0:0:1]:8501", ("::1", 8501)),
        ("[::ffff:127.0.0.1]", ("127.0.0.1", 80)),
    ],
)
def test_a_host_is_a_name_and_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_authority(text, "http") == ("http", *expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8501",
        "a:b",
        "a:99999",
        "user@127.0.0.1",
        "127.0.0.1:8501/x",
        "a b",
        "a;b",
        "a,b",
        "[::1",
    ],
)
def test_what_is_no_host_is_none(text: str) -> None:
    assert parse_authority(text, "http") is None


@pytest.mark.parametrize("text", ["null", "", "127.0.0.1:8501", "file://", "ftp://a", "http://a/b"])
def test_what_is_no_origin_is_none(text: str) -> None:
    assert parse_origin(text) is None


def test_an_origin_is_written_as_browsers_write_it() -> None:
    assert str(Origin("http", "::1", 8501)) == "http://[::1]:8501"
    assert str(Origin("https", "maps.example.org", 443)) == "https://maps.example.org"
    assert Origin("https", "maps.example.org", 443).socket == "wss://maps.example.org"
    assert Origin("http", "localhost", 8501).socket == "ws://localhost:8501"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_addresses_are_known(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", LAN, "evil.example", "127.0.0.1.evil.example"]
)
def test_other_addresses_are_not_loopback(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_the_usual_dashboard_answers_under_the_names_of_this_machine(host: str) -> None:
    found = Access().served(f"{host}:{PORT}", "http", LOOPBACK, PORT)
    assert found == ("http", canonical_name(host), PORT)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:80", "localhost:8502", f"evil.example:{PORT}", f"{LAN}:{PORT}", ""],
)
def test_other_names_and_ports_are_foreign(host: str) -> None:
    assert Access().served(host, "http", LOOPBACK, PORT) is None


def test_a_name_may_be_a_setting() -> None:
    access = Access(names=("maps.lab", "*.example.org"))
    for name in ("maps.lab", "a.example.org", "a.b.example.org"):
        assert access.served(f"{name}:{PORT}", "http", LOOPBACK, PORT) is not None
    for name in ("example.org", "evilexample.org", "localhost"):
        assert access.served(f"{name}:{PORT}", "http", LOOPBACK, PORT) is None


def test_a_connection_from_elsewhere_needs_a_name_of_its_own_end() -> None:
    access = Access(token=new_token())
    machine = socket.gethostname()
    for name in (LAN, machine, f"{machine}.local"):
        assert access.served(f"{name}:{PORT}", "http", LAN, PORT) is not None, name
    for name in ("127.0.0.1", "localhost", "[::1]", "192.168.1.6", "evil.example"):
        assert access.served(f"{name}:{PORT}", "http", LAN, PORT) is None, name
    assert access.served(f"{LAN}:{PORT}", "http", f"::ffff:{LAN}", PORT) is not None


def test_without_a_token_only_this_machine_is_answered() -> None:
    assert Access().reachable(LOOPBACK)
    assert Access().reachable("::ffff:127.0.0.1")
    assert not Access().reachable(LAN)
    assert not Access().reachable(None)
    assert Access(token=new_token()).reachable(LAN)


def test_a_proxy_serves_the_dashboard_under_its_public_address() -> None:
    public = Origin("https", "maps.example.org", 443)
    access = Access(public=public)
    served = access.served("maps.example.org", "http", LOOPBACK, PORT)
    assert served == public
    assert access.is_own_page("https://maps.example.org", public)
    assert not access.is_own_page("http://maps.example.org", public)
    # A proxy that puts the server's own name in place of the public one.
    rewritten = access.served(f"127.0.0.1:{PORT}", "http", LOOPBACK, PORT)
    assert rewritten is not None
    assert access.is_own_page("https://maps.example.org", rewritten)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://127.0.0.1",
        f"https://127.0.0.1:{PORT}",
        "http://127.0.0.1:8502",
        f"http://localhost:{PORT}",
        f"http://127.0.0.1.evil.example:{PORT}",
        f"http://127.0.0.1:{PORT}/",
    ],
)
def test_the_origin_is_the_very_address_of_the_page(origin: str) -> None:
    served = Origin("http", "127.0.0.1", PORT)
    assert Access().is_own_page(str(served), served)
    assert not Access().is_own_page(origin, served)
