"""Heads of requests: a parser that knows the headers of earlier requests reads as a new one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.apiserver.serving.http1.request_body import NO_SOURCE
from kapiserver.apiserver.serving.http1.request_parser import RequestHead, RequestParser

_FIELDS = st.lists(
    st.sampled_from(
        [b"accept: a/b", b"Accept: a/b", b"accept: ", b"x-a: 1", b"X-A: 2", b"x-b: \xff", b"x-c:"]
    ),
    max_size=3,
)


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
