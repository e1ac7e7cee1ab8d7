"""gzip compression of large responses."""

import asyncio
import gzip
import types
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.filters import compression
from kapiserver.apiserver.filters.compression import SLICE, THRESHOLD, compress, is_remote
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Headers, Response
from kapiserver.apiserver.user import MASTERS, User
from kapiserver.cluster import open_cluster

REMOTE = "192.0.2.7"


async def _nothing(limit: int) -> bytes:
    return b""


def _get(path: str, *, remote: str = REMOTE, encoding: str = "gzip", **settings: Any) -> Response:
    """GET from a client address. Returns the response with its whole body."""

    async def run() -> Response:
        async with open_cluster(Config.of(**settings)) as cluster:
            response = await cluster.handle(
                Request(
                    method="GET",
                    path=path,
                    query={},
                    headers={"Accept-Encoding": encoding},
                    info=parse_request_info("GET", path, {}),
                    read_body=_nothing,
                    remote=remote,
                    user=User(name="admin", groups=(MASTERS,)),
                )
            )
            assert isinstance(response, Response)
            body = response.body
            if not isinstance(body, bytes):
                body = b"".join([piece async for piece in body])
            return Response(status=response.status, headers=response.headers, body=body)

    return asyncio.run(run())


def _is_compressed(response: Response) -> bool:
    return ("Content-Encoding", "gzip") in response.headers


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("gzip", True), ("deflate, gzip", True), ("gzip;q=1", False), ("", False), ("br", False)],
)
def test_accept_encoding(encoding: str, expected: bool) -> None:
    """A large response is compressed if the client accepts gzip."""
    response = _get("/openapi/v2", encoding=encoding)
    assert _is_compressed(response) == expected
    plain = gzip.decompress(response.body) if expected else response.body
    assert plain.startswith(b'{"swagger":"2.0"')
    assert (("Vary", "Accept-Encoding") in response.headers) == expected


def test_small_responses() -> None:
    """A small response is not compressed."""
    response = _get("/version")
    assert not _is_compressed(response)
    assert response.body.startswith(b"{")


@pytest.mark.parametrize("remote", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", ""])
def test_loopback(remote: str) -> None:
    """Responses to clients on the same machine are not compressed."""
    assert not is_remote(remote)
    assert is_remote(REMOTE)
    assert is_remote("fd00::1")


def test_gate() -> None:
    """The feature gate turns compression off."""
    gates = parse_feature_gates("APIResponseCompression=false")
    assert not _is_compressed(_get("/openapi/v2", feature_gates=gates))


async def _slices(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _compress(body: bytes | AsyncIterator[bytes]) -> tuple[list[bytes], Headers]:
    """Return the pieces of the compressed body, and the headers."""
    response = await compress(Response(body=body))
    if isinstance(response.body, bytes):
        return [response.body], response.headers
    return [piece async for piece in response.body], response.headers


@pytest.mark.parametrize("size", [0, 1, THRESHOLD, THRESHOLD + 1, 5 * SLICE + 3])
@pytest.mark.parametrize("pieces", [0, 1, 64, SLICE, 10 * SLICE])
def test_sizes(size: int, pieces: int) -> None:
    """The decompressed body is complete, whatever the sizes of its slices."""
    whole = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    if pieces == 1:
        pieces = max(1, size // 7)
    sliced = [whole[at : at + pieces] for at in range(0, size, pieces)] if pieces else []
    chunks, headers = asyncio.run(_compress(_slices(sliced) if pieces else whole))
    if size <= THRESHOLD:
        assert b"".join(chunks) == whole
        assert not headers
    else:
        assert gzip.decompress(b"".join(chunks)) == whole


class _Compressor:
    """Counts the bytes that it is given."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj()
        self.flush = self._compressor.flush
        self.size = 0

    def compress(self, data: bytes) -> bytes:
        self.size += len(data)
        return self._compressor.compress(data)


def test_compression_yields(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece of a long response is made of one slice at most, which takes a few milliseconds,
    before the next piece lets other tasks run."""
    compressor, sizes = _Compressor(), []

    async def run() -> None:
        response = await compress(Response(body=b"x" * (5 * SLICE + 3)))
        assert not isinstance(response.body, bytes)
        async for _ in response.body:
            sizes.append(compressor.size)
            compressor.size = 0

    monkeypatch.setattr(compression, "zlib", _zlib_with(compressor))
    asyncio.run(run())
    assert sizes == [SLICE] * 5 + [3, 0]


def _zlib_with(compressor: _Compressor) -> types.SimpleNamespace:
    return types.SimpleNamespace(compressobj=lambda *_: compressor, DEFLATED=zlib.DEFLATED)
