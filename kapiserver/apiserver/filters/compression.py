"""Compresses large responses for clients that accept gzip.

Streams are never compressed, nor responses to the loopback interface, where sending a byte costs
less than compressing it. A response is compressed slice by slice, so that it never blocks the event
loop for more than a few milliseconds. Mirrors deferredResponseWriter of k8s.io/apiserver (KEP-156).
"""

from __future__ import annotations

import functools
import ipaddress
import zlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator

from msgspec.structs import replace

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response

THRESHOLD = 128 * 1024
"""Responses of at most this many bytes are not compressed."""
SLICE = 256 * 1024
"""Bytes compressed in one step: 2 to 4 ms."""
_LEVEL = 1
_GZIP = 31
"""The `wbits` of zlib for the largest window and a gzip header."""
_GATE = "APIResponseCompression"


def compress_responses(server: Server, next_handler: Handler) -> Handler:
    """Compress large responses to remote clients that accept gzip."""
    if _GATE not in server.config.features.feature_gates:
        return next_handler

    def handle(request: Request) -> Awaitable[AnyResponse]:
        if lists_gzip(request.header("Accept-Encoding")) and is_remote(request.remote):
            return handle_compressed(request)
        return next_handler(request)

    async def handle_compressed(request: Request) -> AnyResponse:
        response = await next_handler(request)
        if not isinstance(response, Response) or response.is_passed_on:
            return response
        if isinstance(response.body, bytes) and len(response.body) <= THRESHOLD:
            return response
        return await compress(response)

    return handle


@functools.lru_cache(maxsize=64)
def lists_gzip(codings: str) -> bool:
    """Report whether Accept-Encoding lists gzip without a weight, as kube-apiserver checks it."""
    return any(coding.strip() == "gzip" for coding in codings.split(","))


@functools.lru_cache(maxsize=1024)
def is_remote(address: str) -> bool:
    """Report whether an IP address is not of the loopback interface."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # no IP address, as of a Unix socket or in a test
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return not (mapped or parsed).is_loopback


async def compress(response: Response) -> Response:
    """Return the response with its body in gzip, or unchanged if the body is small."""
    slices = _split(response.body)
    size, head = 0, []
    async for piece in slices:
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


async def _gzip_slices(head: Iterable[bytes], tail: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for piece in head:
        yield compressor.compress(piece)
    async for piece in tail:
        yield compressor.compress(piece)
    yield compressor.flush()


async def _split(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the body in pieces of at most SLICE bytes."""
    if isinstance(body, bytes):
        for piece in _cut(body):
            yield piece
        return
    async for piece in body:
        for part in _cut(piece):
            yield part


def _cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), SLICE):
        yield data[start : start + SLICE]
