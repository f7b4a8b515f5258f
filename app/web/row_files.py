"""Arrays of the rows of large maps, which browsers load as files by the digest of their content.

Streamlit sends a component all of its input whenever a part of it changes, and removes a picture as
soon as a page that is drawn again has not come to it. Here an array is kept for a while, and its
address is that of its content, so a browser loads it once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["FOLDER", "MOST_BYTES", "add", "route"]

#: Where the files are, and the largest sum of their sizes.
FOLDER, MOST_BYTES = "/rows/", 256 * 2**20

_files: OrderedDict[str, bytes] = OrderedDict()
_lock = threading.Lock()


def add(content: bytes) -> str:
    """Keep a file, and return its address; those that were used last are kept longest."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    with _lock:
        _files[digest] = content
        _files.move_to_end(digest)
        size = sum(map(len, _files.values()))
        while size > MOST_BYTES and len(_files) > 1:
            _, oldest = _files.popitem(last=False)
            size -= len(oldest)
    return FOLDER + digest


def route() -> Route:
    """The route at which the files are served."""
    return Route(f"{FOLDER}{{digest}}", _answer)


async def _answer(request: Request) -> Response:
    with _lock:
        content = _files.get(request.path_params["digest"])
    if content is None:
        return Response("This file is no longer kept: load the page again.", status_code=404)
    headers = {"cache-control": "private, max-age=86400, immutable"}
    return Response(content, media_type="application/octet-stream", headers=headers)
