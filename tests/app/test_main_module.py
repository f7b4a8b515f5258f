"""The launcher: ports, addresses and the settings that the package carries."""

import os
import signal
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from app.__main__ import HOST, first_free_port, main
from app.web import application

PACKAGE = Path(app.__file__).parent
SETTINGS = tomllib.loads((PACKAGE / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A socket that listens on some port of this machine."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines handed to Streamlit, which is not started."""
    calls: list[list[str]] = []
    monkeypatch.setattr("app.web.application._granted", [])
    monkeypatch.setattr(
        "streamlit.web.cli.main", lambda arguments, **options: calls.append(arguments)
    )
    return calls


def test_a_free_port_is_used_as_it_is() -> None:
    port = first_free_port(0)
    assert first_free_port(port) == port


def test_a_taken_port_gives_way_to_the_next_free_one(taken: socket.socket) -> None:
    busy = taken.getsockname()[1]
    assert busy < first_free_port(busy) < busy + 100


def test_no_port_at_all_is_said(monkeypatch: pytest.MonkeyPatch, taken: socket.socket) -> None:
    monkeypatch.setattr("app.__main__.PORTS_TRIED", 1)
    busy = taken.getsockname()[1]
    with pytest.raises(OSError, match=f"No port from {busy} to {busy} can be used"):
        first_free_port(busy)


def test_the_launcher_says_which_port_it_took_instead(
    taken: socket.socket, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    busy = taken.getsockname()[1]
    assert main(["--port", str(busy), "--no-browser"]) == 0
    printed = capsys.readouterr().out
    (arguments,) = started
    port = next(part.removeprefix("--server.port=") for part in arguments if "port=" in part)
    assert f"Port {busy} is taken: using {port}." in printed
    assert f"http://{HOST}:{port}" in printed
    assert "--server.headless=true" in arguments


def test_the_home_is_handed_on(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["--port", "0", "--home", "runs"])
    assert os.environ["LATENTBOARD_HOME"] == str(tmp_path / "runs")
    assert "--server.headless=true" not in started[0]


@pytest.mark.parametrize("port", ["http", "-1", "65536", "8501.5"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--port", port])
    assert "expected a whole number from 0 to 65535" in capsys.readouterr().err


def test_the_usual_start_listens_on_this_machine_only(
    started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--port", "0", "--no-browser"]) == 0
    assert f"--server.address={HOST}" in started[0]
    printed = capsys.readouterr().out
    assert "token" not in printed
    assert "Warning" not in printed
    ((address, access),) = application._granted
    assert (address, access.token) == (HOST, None)


def test_listening_to_other_machines_is_a_flag_with_a_warning_and_a_token(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("app.__main__.first_free_port", lambda port, address: port)
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", "0.0.0.0")
    assert main(["--listen", "192.168.1.5"]) == 0
    assert "--server.address=192.168.1.5" in started[0]
    ((address, access),) = application._granted
    assert address == "192.168.1.5"
    printed = capsys.readouterr().out
    assert f"Latentboard is at http://192.168.1.5:8501/?token={access.token} (Ctrl-C" in printed
    assert "Warning: other machines can reach this dashboard on 192.168.1.5, port 8501" in printed


def test_the_environment_alone_does_not_open_the_dashboard(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", "0.0.0.0")
    assert main([]) == 1
    assert not started
    said = capsys.readouterr()
    assert "STREAMLIT_SERVER_ADDRESS is 0.0.0.0" in said.err
    assert "--listen 0.0.0.0" in said.err
    assert said.out == ""


def test_an_address_of_another_machine_is_said(
    started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--listen", "203.0.113.7"]) == 1
    assert "203.0.113.7 is no address of this machine." in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--listen", "maps.example.org"),
        ("--listen", "1.2.3"),
        ("--public-address", "maps.example.org"),
        ("--public-address", "https://maps.example.org/path"),
    ],
)
def test_an_address_that_is_none_is_refused(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([flag, value])
    assert f"argument {flag}: got {value!r}, expected" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_ends_the_dashboard_without_an_error(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr("app.web.application._granted", [])
    monkeypatch.setattr("streamlit.web.cli.main", lambda *_, **__: signal.raise_signal(number))
    assert main(["--port", "0", "--no-browser"]) == 0
    assert signal.getsignal(number) is before


def test_the_dashboard_stays_on_this_machine_and_sends_nothing() -> None:
    assert SETTINGS["server"]["address"] == HOST
    assert HOST in SETTINGS["server"]["allowedHosts"]
    assert SETTINGS["browser"]["gatherUsageStats"] is False
    assert SETTINGS["logger"]["hideWelcomeMessage"] is True
    assert SETTINGS["client"]["showErrorDetails"] == "none"


def test_every_font_of_the_theme_is_shipped() -> None:
    faces = SETTINGS["theme"]["fontFaces"]
    assert {face["family"] for face in faces} == {"Inter", "JetBrains Mono"}
    for face in faces:
        font = PACKAGE / "static" / face["url"].removeprefix("app/static/")
        assert font.read_bytes()[:4] == b"wOF2"


def names(table: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield the dotted names of the settings in a table and the tables in it."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from names(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def test_streamlit_knows_every_setting() -> None:
    from streamlit import config

    assert not set(names(SETTINGS)) - set(config.get_config_options())
