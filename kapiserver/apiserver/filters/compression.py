"""Compresses large responses for clients that accept gzip.

Streams are never compressed, nor responses to the loopback interface, where sending a byte costs
less than compressing it. A response is compressed slice by slice, so that it never blocks the event
loop for more than a few milliseconds. Mirrors deferredResponseWriter of k8s.io/apiserver (KEP-156).
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response

THRESHOLD = 128 * 1024
"""Responses of at most so many bytes are not compressed."""
SLICE = 256 * 1024
"""Bytes compressed in one step: 2 to 4 ms."""
_LEVEL = 1
_GZIP = 31
"""The `wbits` of zlib for the largest window and a gzip header."""
_GATE = "APIResponseCompression"


def compress_responses(server: Server, next_handler: Handler) -> Handler:
    """Compress large responses to remote clients that accept gzip."""
    if _GATE not in server.config.feature_gates:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        response = await next_handler(request)
        if not isinstance(response, Response) or _is_small(response.body):
            return response
        if accepts_gzip(request) and is_remote(request.remote):
            return compress(response)
        return response

    return handle


def _is_small(body: bytes | Iterable[bytes]) -> bool:
    return isinstance(body, bytes) and len(body) <= THRESHOLD


def accepts_gzip(request: Request) -> bool:
    """Report whether Accept-Encoding lists gzip without a weight, as kube-apiserver checks it."""
    accepted = request.header("Accept-Encoding")
    return "gzip" in accepted and any(coding.strip() == "gzip" for coding in accepted.split(","))


def is_remote(address: str) -> bool:
    """Report whether an IP address is not of the loopback interface."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # no IP address, as of a Unix socket or in a test
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return not (mapped or parsed).is_loopback


def compress(response: Response) -> Response:
    """Return the response with its body in gzip, or unchanged if the body is small."""
    slices = _split(response.body)
    size, head = 0, []
    for piece in slices:
        head.append(piece)
        size += len(piece)
        if size > THRESHOLD:
            break
    else:
        return (
            response if isinstance(response.body, bytes) else replace(response, body=b"".join(head))
        )
    response.headers.append(("Content-Encoding", "gzip"))
    response.headers.append(("Vary", "Accept-Encoding"))
    return replace(response, body=_gzip_slices(head, slices), length=None)


def _gzip_slices(head: Iterable[bytes], tail: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for pieces in (head, tail):
        for piece in pieces:
            yield compressor.compress(piece)
    yield compressor.flush()


def _split(body: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Yield the body in pieces of at most SLICE bytes."""
    for piece in (body,) if isinstance(body, bytes) else body:
        if len(piece) <= SLICE:
            yield piece
            continue
        for start in range(0, len(piece), SLICE):
            yield piece[start : start + SLICE]
