"""Large answers, compressed for clients that take gzip.

Not for the loopback: there a byte costs less to send than to compress. Nor for streams. Slice by
slice, so that no answer holds the loop for more than a few milliseconds. Mirrors
deferredResponseWriter of k8s.io/apiserver (KEP-156).
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
"""Answers of at most so many bytes go out as they are."""
SLICE = 256 * 1024
"""Bytes compressed at once: 2 to 4 ms."""
_LEVEL = 1
_GZIP = 31
"""zlib's way to say: the largest window, in a gzip file."""
_GATE = "APIResponseCompression"


def compress_answers(server: Server, next_handler: Handler) -> Handler:
    """Compress what is large, where that pays."""
    if _GATE not in server.config.feature_gates:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        answer = await next_handler(request)
        if not isinstance(answer, Response) or _is_small(answer.body):
            return answer
        if takes_gzip(request) and is_remote(request.remote):
            return compressed(answer)
        return answer

    return handle


def _is_small(body: bytes | Iterable[bytes]) -> bool:
    return isinstance(body, bytes) and len(body) <= THRESHOLD


def takes_gzip(request: Request) -> bool:
    """Whether the client asks for gzip, by that word alone: weights are for others."""
    accepted = request.header("Accept-Encoding")
    return "gzip" in accepted and any(one.strip() == "gzip" for one in accepted.split(","))


def is_remote(address: str) -> bool:
    """Whether the client is on another machine."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # no address: a socket in the file system, a test
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return not (mapped or parsed).is_loopback


def compressed(answer: Response) -> Response:
    """The answer with its body in gzip, or itself where that is small."""
    slices = _slices(answer.body)
    size, first = 0, []
    for piece in slices:
        first.append(piece)
        size += len(piece)
        if size > THRESHOLD:
            break
    else:
        return answer if isinstance(answer.body, bytes) else replace(answer, body=b"".join(first))
    answer.headers.append(("Content-Encoding", "gzip"))
    answer.headers.append(("Vary", "Accept-Encoding"))
    return replace(answer, body=_gzipped(first, slices), length=None)


def _gzipped(first: Iterable[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for pieces in (first, rest):
        for piece in pieces:
            yield compressor.compress(piece)
    yield compressor.flush()


def _slices(body: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """The body in pieces of at most SLICE bytes."""
    for piece in (body,) if isinstance(body, bytes) else body:
        if len(piece) <= SLICE:
            yield piece
            continue
        for start in range(0, len(piece), SLICE):
            yield piece[start : start + SLICE]
