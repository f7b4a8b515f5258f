"""The middleware by itself, before an application that answers everything."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.web import request_guard
from app.web.access import LOOPBACK, Access, Origin, new_token
from app.web.request_guard import RequestGuard

PORT = 8501
LAN = "192.168.1.5"
OWN = f"http://127.0.0.1:{PORT}"
FLOOR = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Answer:
    """What came back: status, headers, body, and the request as the application saw it."""

    def __init__(self, sent: list[Message], passed: list[Scope]) -> None:
        self.sent = sent
        self.passed = passed
        start = next((one for one in sent if "headers" in one), {})
        self.status = start.get("status")
        pairs = [(name.decode(), value.decode()) for name, value in start.get("headers", [])]
        self.headers = dict(pairs)
        assert len(self.headers) == len(pairs), "a header was sent twice"
        self.text = b"".join(one.get("body", b"") for one in sent).decode()


def ask(
    access: Access,
    path: str = "/",
    *,
    query: str = "",
    method: str = "GET",
    local: str | None = LOOPBACK,
    socket: bool = False,
    headers: Mapping[str, str] | None = None,
    reply: tuple[tuple[bytes, bytes], ...] = (),
    fails: bool = False,
) -> Answer:
    """Ask the guard with the headers of the usual page, and others in their place."""
    given = {"host": f"127.0.0.1:{PORT}"} | dict(headers or {})
    scope: dict[str, Any] = {
        "type": "websocket" if socket else "http",
        "scheme": "ws" if socket else "http",
        "path": path,
        "query_string": query.encode(),
        "server": None if local is None else (local, PORT),
        "headers": [(name.encode(), value.encode()) for name, value in given.items() if value],
        "extensions": {"websocket.http.response": {}},
    }
    if not socket:
        scope["method"] = method
    sent: list[Message] = []
    passed: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        passed.append(scope)
        if fails:
            raise ZeroDivisionError
        if socket:
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": list(reply)})
            await send({"type": "http.response.body", "body": b"page"})

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    call = RequestGuard(application, access)(scope, receive, send)
    if fails:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(call)
    else:
        asyncio.run(call)
    answer = Answer(sent, passed)
    if sent:
        assert answer.headers.items() >= FLOOR.items()
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    return answer


def test_an_own_page_is_passed_on_with_its_policy() -> None:
    answer = ask(Access())
    assert (answer.status, answer.text) == (200, "page")
    policy = answer.headers["content-security-policy"]
    assert f"connect-src 'self' ws://127.0.0.1:{PORT};" in policy
    assert "unsafe-eval" not in policy
    assert "http:" not in policy
    assert "*" not in policy


def test_an_answer_is_not_opened_to_other_origins() -> None:
    reply = (
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-credentials", b"true"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-type", b"text/html"),
    )
    answer = ask(Access(), reply=reply)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["content-type"] == "text/html"


@pytest.mark.parametrize(
    "path", ["/media/abc.html", "/base/media/a.svg", "/_stcore/upload_file/a/b", "/rows/abc"]
)
def test_nothing_runs_in_a_file(path: str) -> None:
    policy = ask(Access(), path).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy


@pytest.mark.parametrize("socket", [False, True])
@pytest.mark.parametrize("host", ["", "evil.example", f"evil.example:{PORT}", "127.0.0.1:8502"])
def test_a_foreign_host_is_refused(host: str, socket: bool) -> None:
    answer = ask(Access(), headers={"host": host, "origin": f"http://{host}"}, socket=socket)
    assert (answer.status, answer.text) == (403, request_guard.FOREIGN_HOST)
    assert not answer.passed


@pytest.mark.parametrize("socket", [False, True])
@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1:8000", f"http://localhost:{PORT}"]
)
def test_a_foreign_origin_is_refused(origin: str, socket: bool) -> None:
    answer = ask(Access(), headers={"origin": origin}, socket=socket)
    assert (answer.status, answer.text) == (403, request_guard.FOREIGN_PAGE)
    assert not answer.passed


def test_a_socket_needs_an_origin() -> None:
    assert ask(Access(), socket=True).status == 403
    assert ask(Access(), socket=True, headers={"origin": OWN}).passed


def test_streamlit_is_shown_no_origin_and_a_host_that_it_allows() -> None:
    access = Access(names=("*.example.org", "127.0.0.1"))
    (seen,) = ask(access, socket=True, headers={"origin": OWN}).passed
    assert dict(seen["headers"]) == {b"host": b"any.example.org"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_may_link_here_but_load_nothing(site: str) -> None:
    def status(method: str = "GET", **fetch: str) -> Any:
        headers = {f"sec-fetch-{name}": value for name, value in fetch.items()}
        return ask(Access(), method=method, headers={"sec-fetch-site": site} | headers).status

    assert status(mode="navigate", dest="document") == 200
    assert status(mode="navigate", dest="iframe") == 403
    assert status(mode="no-cors", dest="image") == 403
    assert status(mode="no-cors", dest="script") == 403
    assert status("POST", mode="navigate", dest="document") == 403
    assert ask(Access(), headers={"sec-fetch-site": "same-origin"}).status == 200


@pytest.mark.parametrize("local", [LAN, None])
def test_without_a_token_no_other_machine_is_answered(local: str | None) -> None:
    for host in (f"127.0.0.1:{PORT}", f"{LAN}:{PORT}"):
        answer = ask(Access(), local=local, headers={"host": host})
        assert (answer.status, answer.text) == (403, request_guard.FOREIGN_MACHINE)
        assert not answer.passed


@pytest.mark.parametrize("socket", [False, True])
def test_a_failure_carries_the_headers_and_is_raised_on(socket: bool) -> None:
    answer = ask(Access(), fails=True, socket=socket, headers={"origin": OWN})
    assert (answer.status, answer.text) == (500, request_guard.FAILED)


def test_the_token_is_asked_for_and_kept_in_a_cookie() -> None:
    token = new_token()
    access = Access(token=token)
    cookie = {"cookie": f"other=1; latentboard_token_{PORT}={token}"}
    own = {"origin": OWN}

    refused = ask(access)
    assert (refused.status, refused.text) == (403, request_guard.NO_TOKEN)
    assert "set-cookie" not in refused.headers
    wrong = new_token()
    assert ask(access, query=f"token={wrong}").status == 403
    assert ask(access, headers={"cookie": f"latentboard_token_{PORT}={wrong}"}).status == 403
    assert ask(access, headers={"cookie": f"latentboard_token_8502={token}"}).status == 403
    assert ask(access, socket=True, headers=own).status == 403
    assert ask(access, socket=True, headers=own, query=f"token={token}").status == 403
    assert ask(access, method="POST", query=f"token={token}").status == 403

    first = ask(access, "/latent", query=f"run=a%22b&token={token}")
    assert first.status == 200
    assert not first.passed
    assert first.headers["set-cookie"] == (
        f"latentboard_token_{PORT}={token}; Path=/; HttpOnly; SameSite=Strict"
    )
    assert first.headers["cache-control"] == "no-store"
    assert 'content="0; url=?run=a%22b"' in first.text
    assert token not in first.text

    assert ask(access, headers=cookie).passed
    assert ask(access, headers=cookie | own, socket=True).passed
    assert not ask(access, headers=cookie | {"origin": "http://evil.example"}, socket=True).passed


def test_an_encrypted_page_keeps_its_cookie_encrypted() -> None:
    token = new_token()
    access = Access(public=Origin("https", "maps.example.org", 443), token=token)
    first = ask(access, query=f"token={token}", headers={"host": "maps.example.org"})
    assert first.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
