"""Heads of requests: a parser that knows the headers of earlier requests reads as a new one."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kapiserver.apiserver.serving.http1.request_body import NO_SOURCE
from kapiserver.apiserver.serving.http1.request_parser import (
    LINE_LIMIT,
    RequestHead,
    RequestParser,
)

_FIELDS = st.lists(
    st.sampled_from(
        [b"accept: a/b", b"Accept: a/b", b"accept: ", b"x-a: 1", b"X-A: 2", b"x-b: \xff", b"x-c:"]
    ),
    max_size=3,
)


_FIRST_LINES = st.sampled_from(
    [
        b"GET /a HTTP/1.1",
        b"GET /b?c=d HTTP/1.1",
        b"DELETE /c HTTP/1.1",
        b"GET /%41 HTTP/1.1",
        b"GET /%zz HTTP/1.1",
        b"GET /a HTTP/1.0",
        b"GET  /a HTTP/1.1",
        b"GET a HTTP/1.1",
        b"POST /d HTTP/1.1",
        b"CONNECT /d HTTP/1.1",
    ]
)
_RESTS = st.sampled_from(
    [
        b"host: x\r\n\r\n",
        b"host: x\r\naccept: a\r\n\r\n",
        b"\r\n",
        b"connection: keep-alive\r\n\r\n",
        b"host: x\r\nconnection: close\r\n\r\n",
        b"host: x\r\ncontent-length: 0\r\n\r\n",
        b"host: x\r\ncontent-length: 2\r\n\r\nab",
        b"host: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"host: x\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n",
    ]
)


@example([(b"GET /a HTTP/1.1", b"host: x\r\n\r\n"), (b"HEAD /b HTTP/1.1", b"host: x\r\n\r\n")], 1)
@example([(b"GET /a HTTP/1.1", b"host: x\r\n\r\n"), (b"GET /%zz HTTP/1.1", b"host: x\r\n\r\n")], 1)
@example([(b"GET / HTTP/1.%d" % minor, b"connection: keep-alive\r\n\r\n") for minor in (0, 1)], 1)
@example([(b"GET /%b HTTP/1.1" % (b"a" * n), b"host: x\r\n\r\n") for n in (1, LINE_LIMIT)], 9999)
@given(st.lists(st.tuples(_FIRST_LINES, _RESTS), min_size=1, max_size=5), st.integers(1, 300))
@settings(max_examples=300)
def test_heads_that_repeat(requests: list[tuple[bytes, bytes]], size: int) -> None:
    """Requests that arrive whole, or in pieces of a size, are those that arrive byte by byte."""
    whole = [line + b"\r\n" + rest for line, rest in requests]
    data = b"".join(whole)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    single_bytes = [bytes((byte,)) for byte in data]
    assert _fed(whole) == _fed(single_bytes) == _fed(pieces)


def _fed(pieces: list[bytes]) -> list[tuple[object, ...]]:
    """What a parser reports of the requests that arrive in these pieces."""
    heads: list[RequestHead] = []
    parser = RequestParser(NO_SOURCE, heads.append)
    for piece in pieces:
        parser.feed(piece)
    return [
        (
            *(head.method, head.target, head.is_http_1_1, list(head.headers.items())),
            *(head.keep_alive, str(head.error), head.body.is_complete, head.body.received),
        )
        for head in heads
    ]


def _heads(data: bytes) -> list[tuple[object, ...]]:
    """What a new parser reports of the requests in some bytes."""
    heads: list[RequestHead] = []
    RequestParser(NO_SOURCE, heads.append).feed(data)
    return [(head.target, list(head.headers.items()), head.error) for head in heads]


@given(st.lists(st.tuples(_FIELDS, st.booleans()), max_size=4))
@settings(max_examples=200)
def test_requests_of_a_connection(blocks: list[tuple[list[bytes], bool]]) -> None:
    """Each request has its own headers, whatever the headers and trailers of the one before."""
    requests = []
    for number, (fields, has_trailer) in enumerate(blocks):
        framing = b"transfer-encoding: chunked" if has_trailer else b"content-length: 0"
        lines = [b"POST /%d HTTP/1.1" % number, b"host: x", *fields, framing, b"", b""]
        requests.append(b"\r\n".join(lines) + (b"0\r\nx-t: 1\r\n\r\n" if has_trailer else b""))
    assert _heads(b"".join(requests)) == [head for data in requests for head in _heads(data)]
