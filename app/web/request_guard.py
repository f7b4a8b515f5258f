"""The middleware before Streamlit: refuses foreign requests, and sets the headers of all answers.

It is the only judge. Streamlit's own check of a socket's origin accepts every port of this
machine, and asks a host on the internet for the machine's address before it refuses. No foreign
origin gets that far, and Streamlit is shown none.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import access_token, row_files
from app.web.access import Access, Origin
from app.web.activity import note_request
from app.web.response_headers import RawHeaders, closed_policy, page_policy, with_headers

__all__ = [
    "FAILED",
    "FOREIGN_HOST",
    "FOREIGN_MACHINE",
    "FOREIGN_PAGE",
    "NO_TOKEN",
    "REFUSED",
    "RequestGuard",
]

FOREIGN_HOST = (
    "Latentboard does not answer under this address: open the one that it printed when it started."
)
FOREIGN_PAGE = "This request came from a page of another site; Latentboard answers its own only."
FOREIGN_MACHINE = "This dashboard answers its own machine only."
NO_TOKEN = (
    "This dashboard needs its access token: open the address with the token that it printed when "
    "it started."
)
REFUSED = "Latentboard refused this socket."
FAILED = "The server failed on this request; its log says why."
#: Where uploads, exports and rows are: what is in them is no page of the dashboard.
_FILES = ("/media/", "/_stcore/upload_file/", row_files.FOLDER)


class RequestGuard:
    """Passes on the requests of the dashboard's own pages, and refuses all others.

    Args:
        app: the application behind it.
        access: who may ask.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        note_request()
        served, token = _page_of(scope, self._access), self._access.token
        if isinstance(served, str):
            await _answer(scope, send, 403, served)
        elif token is not None and _is_get(scope) and access_token.in_address(scope, token):
            cookie, page = access_token.first_page(scope, token, served)
            headers = [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
            await _answer(scope, send, 200, page, kind=b"text/html", headers=headers)
        elif token is not None and not access_token.in_cookie(scope, token):
            await _answer(scope, send, 403, NO_TOKEN)
        else:
            await self._pass_on(scope, receive, send, served)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, served: Origin) -> None:
        """Let the application answer, and add the headers to its answer."""
        is_file = any(part in scope["path"] for part in _FILES)
        policy = closed_policy() if is_file else page_policy(served)
        answered = False

        async def send_with_headers(message: Message) -> None:
            nonlocal answered
            first, answered = not answered, True
            if first and message["type"] == "websocket.close":
                await _answer(scope, send, 403, REFUSED)
                return
            if message["type"] in ("http.response.start", "websocket.accept"):
                headers = with_headers(list(message.get("headers", [])), policy)
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(self._shown(scope), receive, send_with_headers)
        except Exception:  # for the log of the server
            if not answered:
                await _answer(scope, send, 500, FAILED)
            raise

    def _shown(self, scope: Scope) -> Scope:
        """A request as Streamlit sees it: a socket has no origin, and a host that it allows."""
        if scope["type"] != "websocket":
            return scope
        host = self._access.names[0].replace("*", "any").encode()
        kept = [pair for pair in scope["headers"] if pair[0] not in (b"host", b"origin")]
        return {**scope, "headers": [*kept, (b"host", host)]}


def _page_of(scope: Scope, access: Access) -> Origin | str:
    """The address of the page that asks; a sentence if the request is refused."""
    local, port = scope.get("server") or (None, None)
    if not access.reachable(local):
        return FOREIGN_MACHINE
    scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
    hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
    served = access.served(hosts[0], scheme, local, port) if len(hosts) == 1 else None
    if served is None:
        return FOREIGN_HOST
    needed = scope["type"] == "websocket"  # a browser names the origin of every socket
    if not origins:
        return FOREIGN_PAGE if needed or not _is_own_or_link(scope) else served
    is_own = len(origins) == 1 and access.is_own_page(origins[0], served)
    return served if is_own and _is_own_or_link(scope) else FOREIGN_PAGE


def _is_own_or_link(scope: Scope) -> bool:
    """Whether a request comes from an own page, or opens a page in a tab.

    A page of another site cannot read an answer without CORS, but could see that there is one.
    Browsers say where a request comes from; other programs and old browsers do not.
    """
    sites = _values(scope, b"sec-fetch-site")
    if not {"cross-site", "same-site"}.intersection(sites):
        return True
    return _is_get(scope) and _values(scope, b"sec-fetch-dest") == ["document"]


def _is_get(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def _answer(
    scope: Scope,
    send: Send,
    status: int,
    text: str,
    *,
    kind: bytes = b"text/plain",
    headers: RawHeaders | None = None,
) -> None:
    """Answer a request or a handshake without the application."""
    body = text.encode()
    own = [
        (b"content-type", kind + b"; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *(headers or []),
    ]
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": text})
            return
        prefix = "websocket."
    start = {"status": status, "headers": with_headers(own, closed_policy())}
    await send({"type": f"{prefix}http.response.start", **start})
    shown = b"" if scope.get("method") == "HEAD" else body
    await send({"type": f"{prefix}http.response.body", "body": shown})
