"""OpenAPI over HTTP: the index of v3 and its documents, the document of v2, as JSON and Protobuf.

Each has a hash, by which a client asks whether what it has is still so; a v3 URL that holds the
hash may be kept for ever. Mirrors handler and handler3 of kube-openapi.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.discovery.openapi_documents import Document, Documents
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Headers, Response, page_not_found
from kapiserver.codecs.media_types import CBOR, MediaType
from kapiserver.codecs.negotiation import parse_accept

_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.{}.v1.0+protobuf"
_OF_CBOR = (CBOR.name, CBOR.stream_name, "application/apply-patch+cbor")
_YEAR = 365 * 24 * 3600


@functools.lru_cache(maxsize=8)
def _documents_of(
    scheme: Scheme, now: Callable[[], float], media_types: tuple[MediaType, ...]
) -> Documents:
    """Kept for the servers that were asked last; others make theirs anew."""
    return Documents(scheme, now, without=() if CBOR in media_types else _OF_CBOR)


async def serve_openapi(server: Server, request: Request) -> AnyResponse:
    """Answer for a path below `/openapi`. Raises MethodNotAllowed."""
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed
    version, _, path = request.path.removeprefix("/openapi").strip("/").partition("/")
    documents = _documents_of(server.scheme, server.clock.now, server.codecs.media_types)
    document = await _asked(documents, version, path)
    if document is None:
        return page_not_found()
    if version == "v3" and not path:
        return _answered(request, document, _JSON)
    media = _negotiated(request, version)
    if media is None:
        return Response(status=406, media_type="text/plain; charset=utf-8", headers=[_VARY])
    asked = request.parameter("hash") if version == "v3" else ""
    if asked and asked != document.etag:
        return _moved(request, path, document, media)
    headers = [_VARY]
    if asked:
        headers.append(("Cache-Control", "public, immutable"))
        headers.append(("Expires", formatdate(server.clock.now() + _YEAR, usegmt=True)))
    if media == _JSON:
        return _answered(request, document, media, headers)
    body = await document.protobuf()
    return _answered(request, document, media, headers, body)


async def _asked(documents: Documents, version: str, path: str) -> Document | None:
    """The document; None where there is no such."""
    if version == "v3":
        return await (documents.v3(path) if path else documents.index())
    return await documents.v2() if version == "v2" and not path else None


_VARY = ("Vary", "Accept")


def _negotiated(request: Request, version: str) -> str | None:
    """The media type of the answer; None where the client takes none that there is."""
    accept = request.header("Accept")
    if not accept:
        return _JSON
    # Older clients write `v2@v1.0`, which is no media type.
    for clause in parse_accept(accept.replace("@", ".")):
        if clause.quality <= 0:
            continue
        if clause.name in ("*/*", "application/*"):
            return _JSON
        if clause.name in (_JSON, _PROTOBUF.format(version)):
            return clause.name
    return None


def _moved(request: Request, path: str, document: Document, media: str) -> Response:
    location = f"/openapi/v3/{path}?hash={document.etag}"
    headers = [("Location", location), ("ETag", f'"{document.etag}"'), _VARY]
    return Response(status=301, media_type=media, headers=headers)


def _answered(
    request: Request,
    document: Document,
    media: str,
    headers: Headers | None = None,
    body: bytes | None = None,
) -> Response:
    """The document, or that the client has it already."""
    headers = headers or []
    headers.append(("ETag", f'"{document.etag}"'))
    headers.append(("Last-Modified", formatdate(document.modified, usegmt=True)))
    if _is_known(request, document):
        return Response(status=304, media_type=media, headers=headers)
    return Response(body=document.json if body is None else body, media_type=media, headers=headers)


def _is_known(request: Request, document: Document) -> bool:
    """By RFC 9110, section 13.2.2: a hash outweighs a date."""
    known = request.header("If-None-Match")
    if known:
        found = {one.strip().removeprefix("W/") for one in known.split(",")}
        return bool(found & {"*", f'"{document.etag}"'})
    since = request.header("If-Modified-Since")
    try:
        return bool(since) and parsedate_to_datetime(since).timestamp() >= int(document.modified)
    except (ValueError, OverflowError):
        return False
