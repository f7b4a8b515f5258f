"""The answers of a running dashboard: headers, sockets, and what it asks of the network."""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import app
from app.__main__ import first_free_port
from app.web.response_headers import INLINE_SCRIPTS
from tests.e2e.server import Server, running

MAIN = Path(app.__file__).with_name("main.py")
# Notes every host that a process looks up or connects to, as Python itself reports it.
RECORDER = """
import json, os, sys

def note(event, args):
    if event in ("socket.connect", "socket.sendto"):
        hosts = [args[1][0]] if isinstance(args[1], tuple) else []
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        hosts = [args[0]]
    else:
        return
    with open(os.environ["ASKED"], "a", encoding="utf-8") as file:
        file.writelines(json.dumps(str(host)) + "\\n" for host in hosts)

sys.addaudithook(note)
"""


@dataclass(frozen=True)
class Recorded:
    """A running dashboard, and the hosts that its process asked."""

    server: Server
    environment: dict[str, str]

    def asked(self) -> set[str]:
        path = Path(self.environment["ASKED"])
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return {json.loads(line) for line in lines}

    def ask(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        link = http.client.HTTPConnection(urlsplit(self.server.url).netloc, timeout=30)
        with closing(link):
            link.request(method, path, headers=headers or {})
            answer = link.getresponse()
            answer.read()
        return answer

    def socket(self, origin: str | None, **headers: str) -> int:
        """The status of a handshake: 101 where the socket opens."""
        address = self.server.url.replace("http", "ws") + "/_stcore/stream"
        try:
            with connect(address, origin=origin, additional_headers=headers) as opened:  # type: ignore[arg-type]
                response = opened.response
        except InvalidStatus as refused:
            response = refused.response
        assert response is not None
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        return response.status_code


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "sitecustomize.py").write_text(RECORDER, encoding="utf-8")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {"PYTHONPATH": path, "ASKED": str(folder / "asked")}
    with running(folder, environment=environment) as server:
        yield Recorded(server, environment)


def test_foreign_sockets_make_the_server_ask_nothing(recorded: Recorded) -> None:
    port = urlsplit(recorded.server.url).port
    foreign = ["http://evil.example", "https://evil.example:8501", "null", "http://203.0.113.7"]
    foreign += [f"http://localhost:{port}", "http://127.0.0.1:8000", "http://0.0.0.0:1", None]
    assert {recorded.socket(origin) for origin in foreign} == {403}
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1"):
        assert recorded.ask("/", headers={"Host": name}).status == 403
    assert recorded.socket(recorded.server.url) == 101
    assert recorded.ask("/_stcore/health").status == 200
    assert recorded.asked() <= {"127.0.0.1"}
    printed = recorded.server.log.read_text(encoding="utf-8").strip()
    assert printed.startswith("Latentboard is at http://127.0.0.1:")
    assert "\n" not in printed


def test_the_recorder_sees_what_is_asked(recorded: Recorded, tmp_path: Path) -> None:
    environment = recorded.environment | {"ASKED": str(tmp_path / "asked")}
    code = (
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.9', 1))"
    )
    subprocess.run([sys.executable, "-c", code], env=os.environ | environment, check=True)
    assert Recorded(recorded.server, environment).asked() == {"127.0.0.9"}


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 200),
        ("/", "HEAD", 200),
        ("/latent", "GET", 200),
        ("/static/js/missing.js", "GET", 200),
        ("/app/static/map.js", "GET", 200),
        ("/app/static/missing", "GET", 404),
        ("/media/missing", "GET", 404),
        ("/_stcore/health", "GET", 200),
        ("/_stcore/host-config", "GET", 200),
        ("/_stcore/metrics", "GET", 200),
        ("/_stcore/upload_file/a/b", "OPTIONS", 204),
        ("/_stcore/upload_file/a/b", "PUT", 403),
        ("/_stcore/bidi-components/a/b.js", "GET", 404),
        ("/_stcore/agent/interact", "POST", 403),
        ("/", "POST", 405),
        ("/%2e%2e/%2e%2e/etc/passwd", "GET", 400),
    ],
)
def test_every_answer_carries_the_headers(
    recorded: Recorded, path: str, method: str, status: int
) -> None:
    answer = recorded.ask(path, method)
    assert answer.status == status
    names = [name.lower() for name in answer.headers]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("access-control")]
    policy = answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"unsafe-eval|https?:|\*", policy)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_policy_allows_the_inline_scripts_by_their_digests(recorded: Recorded) -> None:
    policy = recorded.ask("/").headers["Content-Security-Policy"]
    assert len(re.findall(r"'sha256-[\w+/]{43}='", policy)) == 1 + len(INLINE_SCRIPTS)
    assert "script-src 'self' blob: 'sha256-" in policy


def test_the_script_by_itself_is_guarded_too(tmp_path: Path) -> None:
    port = first_free_port(0)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN), "--server.headless=true"]
    with subprocess.Popen(
        [*command, f"--server.port={port}"],
        env=os.environ | {"LATENTBOARD_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"Latentboard is at {url} (Ctrl-C stops it).\n"
            dashboard = Recorded(Server(url, tmp_path, tmp_path / "log", process), {})  # type: ignore[arg-type]
            assert dashboard.ask("/").headers["X-Frame-Options"] == "DENY"
            assert dashboard.ask("/", headers={"Host": "evil.example"}).status == 403
            assert dashboard.socket("http://evil.example") == 403
            assert dashboard.socket(url) == 101
        finally:
            process.terminate()


def test_a_dashboard_behind_a_proxy_asks_for_its_token(tmp_path: Path) -> None:
    arguments = ["--public-address", "https://maps.example.org"]
    with running(tmp_path, arguments=arguments) as server:
        printed = server.log.read_text(encoding="utf-8")
        found = re.search(r"https://maps\.example\.org/\?token=(\S+) ", printed)
        assert found is not None
        assert "Warning: other machines can reach this dashboard" in printed
        dashboard = Recorded(server, {})
        proxy = {"Host": "maps.example.org"}
        assert dashboard.ask("/", headers=proxy).status == 403
        assert dashboard.ask("/").status == 403
        first = dashboard.ask(f"/?token={found[1]}", headers=proxy)
        assert first.status == 200
        cookie = {"Cookie": first.headers["Set-Cookie"].split(";")[0]}
        assert dashboard.ask("/", headers=proxy | cookie).status == 200
        assert dashboard.ask("/", headers=cookie).status == 200
        assert dashboard.ask("/", headers=cookie | {"Host": "evil.example"}).status == 403
        own = "https://maps.example.org"
        assert dashboard.socket(own) == 403
        assert dashboard.socket(own, **cookie) == 101
        assert dashboard.socket("https://evil.example", **cookie) == 403
