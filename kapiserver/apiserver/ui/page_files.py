"""The files of the page, which `make ui` builds from `ui/` into the folder `built`.

They are read once, when the page is on. Every file has an ETag, so that a browser asks again and
gets 304. The headers allow scripts, styles and requests of this origin alone; no inline script, no
frame, no plugin, and, by trusted types, no HTML made from text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Headers, Response, page_not_found

FOLDER = Path(__file__).parent / "built"
SECURITY_HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""The headers of every response for the page."""
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(Struct, frozen=True):
    """One file and its headers."""

    body: bytes
    media_type: str
    etag: str


def read_files(folder: Path = FOLDER) -> Mapping[str, PageFile]:
    """Return the files of a folder by their names; the page itself has the name "". Raises
    OSError."""
    files = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _MEDIA_TYPES:
            body = path.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            files[path.name] = PageFile(body, _MEDIA_TYPES[path.suffix], etag)
    files[""] = files.pop("index.html")
    return files


def serve_file(files: Mapping[str, PageFile], name: str, request: Request) -> Response:
    """Return a file, 304 if the client has it, or 404."""
    file = files.get(name)
    if file is None:
        response = page_not_found()
        present = {header for header, _ in response.headers}
        response.headers.extend(pair for pair in SECURITY_HEADERS if pair[0] not in present)
        return response
    headers: Headers = [*SECURITY_HEADERS, ("ETag", file.etag), ("Cache-Control", "no-cache")]
    etags = [etag.strip().removeprefix("W/") for etag in request.header("If-None-Match").split(",")]
    if file.etag in etags or "*" in etags:
        return Response(status=304, media_type="", headers=headers)
    return Response(media_type=file.media_type, body=file.body, headers=headers)
