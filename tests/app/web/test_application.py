"""How the middleware is put before Streamlit, and what the settings may not do."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import requests
from streamlit import config, net_util
from streamlit.web.server.app_discovery import discover_asgi_app

import app
from app.web import application
from app.web.access import LOOPBACK, Access, Origin, new_token
from app.web.request_guard import RequestGuard
from app.web.response_headers import INLINE_SCRIPTS
from app.web.server_address import refused_setting, server_address

MAIN = Path(app.__file__).with_name("main.py")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    log = logging.getLogger("uvicorn.error")
    filters, level = list(log.filters), log.level
    monkeypatch.setattr(application, "_granted", [])
    monkeypatch.setattr(net_util, "_external_ip", None)
    monkeypatch.setattr(net_util, "_internal_ip", None)
    yield
    log.filters[:] = filters
    log.setLevel(level)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Settings of Streamlit in place of its own."""
    values: dict[str, object] = {"server.address": LOOPBACK, "server.allowedHosts": ["localhost"]}
    monkeypatch.setattr(config, "get_option", values.__getitem__)
    return values


def test_streamlit_finds_the_application_in_the_script() -> None:
    found = discover_asgi_app(MAIN)
    assert (found.is_asgi_app, found.import_string) == (True, "main:application")


def test_every_inline_script_of_a_page_is_allowed_by_its_digest() -> None:
    texts = [path.read_text("utf-8") for path in MAIN.parent.rglob("*.py")]
    inline = [text for text in texts if "unsafe_allow_javascript=True" in text]
    assert len(inline) == len(INLINE_SCRIPTS)
    for script in INLINE_SCRIPTS:
        assert sum(f'"{script}"' in text for text in inline) == 1


def test_streamlit_does_not_ask_for_the_addresses_of_the_machine(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object, **__: object) -> None:
        raise AssertionError("something was asked")

    monkeypatch.setattr(requests, "get", ask)
    monkeypatch.setattr(socket, "socket", ask)
    application.middleware()
    assert net_util.get_external_ip() == LOOPBACK
    assert net_util.get_internal_ip() == LOOPBACK


def test_the_middleware_takes_its_names_from_the_settings(settings: dict[str, object]) -> None:
    settings["server.allowedHosts"] = ["maps.lab"]
    (guard,) = application.middleware()
    assert guard.cls is RequestGuard
    assert guard.kwargs == {"access": Access(names=("maps.lab",))}


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.5", None])
def test_a_setting_alone_does_not_open_the_dashboard(
    settings: dict[str, object], address: str | None
) -> None:
    settings["server.address"] = address
    with pytest.raises(SystemExit, match=f"latentboard --listen {address or '0.0.0.0'}"):
        application.middleware()
    application.grant("10.0.0.1", Access(token=new_token()))
    with pytest.raises(SystemExit):
        application.middleware()


def test_a_grant_opens_the_dashboard_with_its_token(settings: dict[str, object]) -> None:
    settings["server.address"] = "0.0.0.0"
    token = new_token()
    application.grant("0.0.0.0", Access(token=token))
    (guard,) = application.middleware()
    access = guard.kwargs["access"]
    assert isinstance(access, Access)
    assert access.token == token


def test_every_host_is_refused_as_a_setting(settings: dict[str, object]) -> None:
    settings["server.allowedHosts"] = ["*"]
    with pytest.raises(SystemExit, match=r"server\.allowedHosts"):
        application.middleware()


def test_the_usual_start_has_neither_token_nor_warning() -> None:
    decided = server_address()
    assert decided.addresses(8501) == ["http://127.0.0.1:8501"]
    assert decided.access.token is None
    assert decided.warning(8501) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_tunnel_to_this_machine_needs_no_token(address: str) -> None:
    decided = server_address(address, Origin("http", "localhost", 9000))
    assert decided.access.token is None
    assert decided.addresses(8501) == ["http://localhost:9000"]


def test_listening_to_others_prints_the_true_address_with_the_token() -> None:
    decided = server_address("192.168.1.5")
    token = decided.access.token
    assert token is not None
    assert len(token) >= 43
    assert server_address("192.168.1.5").access.token != token
    assert decided.addresses(8501) == [f"http://192.168.1.5:8501/?token={token}"]
    warning = decided.warning(8501)
    assert warning is not None
    assert "on 192.168.1.5, port 8501" in warning
    assert "not encrypted" in warning
    six = server_address("fd00::1")
    assert six.addresses(8501) == [f"http://[fd00::1]:8501/?token={six.access.token}"]


def test_listening_on_all_addresses_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(family: int, address: str) -> object:
        return SimpleNamespace(family=family, address=address)

    interfaces = {
        "lo": [found(socket.AF_INET, "127.0.0.1"), found(socket.AF_INET6, "::1")],
        "eth0": [
            found(socket.AF_INET, "192.168.1.5"),
            found(socket.AF_INET6, "fd00::1"),
            found(socket.AF_INET6, "fe80::1%eth0"),
        ],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: interfaces)

    def hosts(address: str) -> list[str]:
        return [url.split("/")[2] for url in server_address(address).addresses(1)]

    assert hosts("0.0.0.0") == ["192.168.1.5:1"]
    assert hosts("::") == ["192.168.1.5:1", "[fd00::1]:1"]
    interfaces.pop("eth0")
    assert hosts("0.0.0.0") == [f"{socket.gethostname()}:1"]
    warning = server_address("0.0.0.0").warning(1)
    assert warning is not None
    assert "every address of this machine (0.0.0.0)" in warning


def test_a_public_address_is_printed_with_its_token() -> None:
    decided = server_address(public=Origin("https", "maps.example.org", 443))
    token = decided.access.token
    assert decided.addresses(8501) == [f"https://maps.example.org/?token={token}"]
    warning = decided.warning(8501)
    assert warning is not None
    assert "not encrypted" not in warning


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.5", "maps.lab"])
def test_the_environment_may_not_open_the_dashboard(address: str) -> None:
    refused = refused_setting({"STREAMLIT_SERVER_ADDRESS": address})
    assert refused is not None
    assert f"--listen {address}" in refused


@pytest.mark.parametrize("address", ["", "127.0.0.1", "localhost", "::1"])
def test_the_environment_may_name_this_machine(address: str) -> None:
    assert refused_setting({"STREAMLIT_SERVER_ADDRESS": address}) is None
