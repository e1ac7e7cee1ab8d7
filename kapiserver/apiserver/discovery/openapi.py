"""Serves OpenAPI: the index and documents of v3 and the document of v2, as JSON and Protobuf.

Each document has an ETag for conditional requests; a v3 URL that contains the hash may be cached
forever. Mirrors handler and handler3 of kube-openapi.
"""

from __future__ import annotations

import functools
from email.utils import formatdate, parsedate_to_datetime

from kapiserver.api.lazy import Lazy, lazy
from kapiserver.apiserver.aggregation.api_services import APIService
from kapiserver.apiserver.context import AggregatedHandler, Server
from kapiserver.apiserver.discovery.merged_openapi import MergedOpenAPI
from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocument, OpenAPIDocuments
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Headers, Response, page_not_found
from kapiserver.apiserver.version import emulated_minor, git_version
from kapiserver.codecs.media_types import CBOR
from kapiserver.codecs.negotiation import parse_accept

_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.{}.v1.0+protobuf"
_CBOR_TYPES = (CBOR.name, CBOR.stream_name, "application/apply-patch+cbor")
_YEAR = 365 * 24 * 3600


def _documents_of(server: Server) -> tuple[OpenAPIDocuments, MergedOpenAPI]:
    """Return the documents of a server, and those merged with others."""
    now = server.clock.now
    minor = emulated_minor(server.config.features.emulated_version)
    excluded_types = () if CBOR in server.codecs.media_types else _CBOR_TYPES
    return (
        OpenAPIDocuments(
            server.scheme, now, version=git_version(minor), excluded_types=excluded_types
        ),
        MergedOpenAPI(server.api_services, now),
    )


async def serve_openapi(server: Server, request: Request) -> AnyResponse:
    """Return the response of a path below `/openapi`. Raises MethodNotAllowed."""
    version, _, path = request.path.removeprefix("/openapi/").partition("/")
    documents, merged = server.openapi.get(functools.partial(_documents_of, server))
    remote = merged.remote(path) if version == "v3" else None
    if remote is not None:
        _check_method(request)
        return await _serve_remote(server, request, *remote)
    if version == "v2":
        documents.prepare_v2_after(server.custom_resources.subscribe, server.clock)
    document = None
    if not request.path.endswith("/"):
        document = await _find_document(documents, merged, version, path)
    if document is None:
        return Response(status=404, media_type="") if version == "v3" else page_not_found()
    _check_method(request)
    if version == "v3" and not path:
        return _document_response(request, document, _JSON)
    media = _negotiate(request, version)
    if media is None:
        return Response(status=406, media_type="text/plain; charset=utf-8", headers=[_VARY])
    requested_hash = request.parameter("hash") if version == "v3" else ""
    if requested_hash and requested_hash != document.etag:
        return _redirect(request, path, document, media)
    headers = [_VARY]
    if requested_hash:
        headers.append(("Cache-Control", "public, immutable"))
        headers.append(("Expires", formatdate(server.clock.now() + _YEAR, usegmt=True)))
    if media == _JSON:
        return _document_response(request, document, media, headers)
    body = await document.protobuf()
    return _document_response(request, document, media, headers, body)


def _check_method(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed


async def _serve_remote(
    server: Server, request: Request, api_service: APIService, url: str
) -> AnyResponse:
    """Return the response of an extension API server; a redirect, if the client asks for another
    state of the document than the index names."""
    requested, known = request.parameter("hash"), url.partition("?hash=")[2]
    if requested and known and requested != known:
        return Response(status=301, media_type="", headers=[("Location", url), _VARY])
    serve_aggregated = await server.offloader.load(_lazy_aggregated)
    return await serve_aggregated(server, request, api_service)


async def _find_document(
    documents: OpenAPIDocuments, merged: MergedOpenAPI, version: str, path: str
) -> OpenAPIDocument | None:
    """Return the document of a path, or None."""
    if version == "v3":
        return await (documents.v3(path) if path else merged.index(documents))
    return await merged.v2(documents) if version == "v2" and not path else None


_lazy_aggregated: Lazy[AggregatedHandler] = lazy(
    "kapiserver.apiserver.proxy.aggregator:serve_aggregated"
)


_VARY = ("Vary", "Accept")


def _negotiate(request: Request, version: str) -> str | None:
    """Return the media type of the response, or None if the client accepts none of them."""
    accept = request.header("Accept")
    if not accept:
        return _JSON
    # Older clients write `v2@v1.0`, which is not a valid media type.
    for clause in parse_accept(accept.replace("@", ".")):
        if clause.name in ("*/*", "application/*"):
            return _JSON
        if clause.name in (_JSON, _PROTOBUF.format(version)):
            return clause.name
    return None


def _redirect(request: Request, path: str, document: OpenAPIDocument, media: str) -> Response:
    location = f"/openapi/v3/{path}?hash={document.etag}"
    headers = [("Location", location), ("ETag", f'"{document.etag}"'), _VARY]
    return Response(status=301, media_type=media, headers=headers)


def _document_response(
    request: Request,
    document: OpenAPIDocument,
    media: str,
    headers: Headers | None = None,
    body: bytes | None = None,
) -> Response:
    """Return the document, or 304 if the client has it already."""
    headers = headers or []
    headers.append(("ETag", f'"{document.etag}"'))
    headers.append(("Last-Modified", formatdate(document.modified, usegmt=True)))
    if _is_not_modified(request, document):
        return Response(status=304, media_type=media, headers=headers)
    return Response(body=document.json if body is None else body, media_type=media, headers=headers)


def _is_not_modified(request: Request, document: OpenAPIDocument) -> bool:
    """Evaluate a conditional request; If-None-Match wins over If-Modified-Since (RFC 9110,
    13.2.2)."""
    etags = request.header("If-None-Match")
    if etags:
        etag_list = {etag.strip().removeprefix("W/") for etag in etags.split(",")}
        return bool(etag_list & {"*", f'"{document.etag}"'})
    modified_since = request.header("If-Modified-Since")
    try:
        return bool(modified_since) and parsedate_to_datetime(modified_since).timestamp() >= int(
            document.modified
        )
    except (ValueError, OverflowError):
        return False
