"""Encoding of etcd's requests and decoding of its responses, as gRPC and as the gateway's JSON."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.codecs.protobuf.wire import encode_delimited, encode_varint
from kapiserver.storage.errors import Corrupt, StorageError, Unavailable
from kapiserver.storage.etcd import gateway
from kapiserver.storage.etcd.gateway_json import GatewayCodec
from kapiserver.storage.etcd.transport import Call, Codec, EtcdError
from kapiserver.storage.etcd.wire import WireCodec
from kapiserver.storage.kv.contract import KVEvent, Revision

CALLS: dict[str, Callable[[Codec], Call[Any]]] = {
    "range": lambda codec: codec.range(b"/a"),
    "put_if": lambda codec: codec.put_if(b"/a", b"v", expected=3),
    "put": lambda codec: codec.put(b"/a"),
    "compact": lambda codec: codec.compact(3),
    "grant_lease": lambda codec: codec.grant_lease(3),
    "status": lambda codec: codec.status(),
    "authenticate": lambda codec: codec.authenticate("root", "secret"),
    "watch": lambda codec: codec.watch(b"/a", b"/b", start=3, previous=True),
}


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, b'{"error":"boo","code":11,"message":"boo"}', EtcdError, "boo"),  # 3.5
        (400, b'{"code":11,"message":"boo","details":[]}', EtcdError, "boo"),  # 3.6
        (400, b'{"error":"boo","code":3}', EtcdError, "boo"),  # 3.4
        (503, b'{"error":"no","code":14,"message":"no"}', Unavailable, "no"),
        (503, b'{"error":{"grpc_code":14,"message":"closing"}}', Unavailable, "closing"),
        (500, b"<html>", Unavailable, "500"),
        (500, b"[]", Unavailable, "500"),
        (500, b'"x"', Unavailable, "500"),
        (500, b'{"code":"many"}', Unavailable, "500"),
    ],
)
def test_errors(status: int, body: bytes, kind: type[StorageError], message: str) -> None:
    """The gateway's errors are parsed in the forms of all etcd versions; anything else is
    Unavailable."""
    error = gateway._refusal(status, body)
    assert type(error) is kind
    assert message in str(error)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"{}",
        b'{"header":{"revision":"x"}}',
        b'{"header":{"revision":"1"},"kvs":[{}]}',
        b'{"kvs":3}',
        b'"header"',
    ],
)
def test_malformed_json(response: bytes) -> None:
    """A malformed response of the gateway is Corrupt."""
    with pytest.raises(Corrupt):
        GatewayCodec("").range(b"/a").decode(response)


@pytest.mark.parametrize(
    "response",
    [
        b"",  # no header
        b"\x0a\x02\x18",  # the header is truncated
        b"\x0a\x01\x18\x12",  # the key-value pair has no length
        b"\x0a\x02\x18\x05\x12\x02\x0a\x09",  # the key exceeds the pair
        b"\x0a\x02\x18\x05\x12\x02\x07\x00",  # wire type 7
        b"\x08\x01",  # the header is a number
        b"\x0a\x02\x18\x05\x10\x01",  # the pairs are a number
        b"\x0a\x02\x18\x05\x22\x00",  # the count is a string
    ],
)
def test_malformed_protobuf(response: bytes) -> None:
    """A malformed response of gRPC is Corrupt."""
    with pytest.raises(Corrupt):
        WireCodec("").range(b"/a").decode(response)


def test_unknown_fields_are_skipped() -> None:
    """A response of a later version of etcd, with fields of every wire type, is read."""
    unknown = b"\x78\x01\x79" + bytes(8) + b"\x7a\x01x\x7d" + bytes(4)
    pair = unknown + b"\x0a\x02/a\x10\x81\x01\x18\x82\x01\x20\x01\x2a\x01v\x30\x05"
    header = b"\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    header = b"\x08" + header[2:] + b"\x18\x05" + unknown
    message = bytes([0x0A, len(header)]) + header + bytes([0x12, len(pair)]) + pair + b"\x20\x07"
    response = WireCodec("/").range(b"/a").decode(message + unknown)
    assert (response.store_revision, response.count) == (5, 7)
    (item,) = response.items
    assert (item.key, item.value, item.revision) == ("a", b"v", 130)


NUMBERS = st.integers(1, (1 << 63) - 1)


@given(
    key=st.binary(max_size=200),
    value=st.binary(max_size=200),
    revisions=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    lease=st.one_of(st.just(0), NUMBERS),
)
def test_any_pair(key: bytes, value: bytes, revisions: tuple[int, int, int], lease: int) -> None:
    """A key-value pair is read with every length, revision and lease; zero values are omitted."""
    numbers = (encode_varint(number) for number in revisions)
    pair = encode_delimited(1, key) if key else b""
    pair += b"\x10%b\x18%b\x20%b" % tuple(numbers)
    pair += encode_delimited(5, value) if value else b""
    pair += b"\x30" + encode_varint(lease) if lease else b""
    message = b"\x0a\x02\x18\x05" + encode_delimited(2, pair)
    (item,) = WireCodec("").range(b"/a").decode(message).items
    assert item.key == key.decode(errors="surrogateescape")
    assert (item.value, item.revision) == (value, revisions[1])


@given(header=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), succeeded=st.booleans())
def test_any_transaction(header: tuple[int, int, int, int], succeeded: bool) -> None:
    """The result and the revision of a transaction are read with every identifier and term."""
    numbers = tuple(encode_varint(number) for number in header)
    message = encode_delimited(1, b"\x08%b\x10%b\x18%b\x20%b" % numbers)
    message += b"\x10\x01" if succeeded else b""
    message += encode_delimited(3, encode_delimited(2, b""))
    response = WireCodec("").put_if(b"/a", b"v", expected=3).decode(message)
    assert (response.succeeded, response.revision) == (succeeded, header[2])


@st.composite
def events(draw: st.DrawFn) -> tuple[KVEvent, bytes]:
    """An event, and its message: a put or a deletion, with a lease or the old value or without."""
    key, value = draw(st.binary(max_size=200)), draw(st.binary(max_size=200))
    created, revision, version, lease = (draw(NUMBERS) for _ in range(4))
    is_deleted = draw(st.booleans())
    pair = encode_delimited(1, key) if key else b""
    pair += b"" if is_deleted else b"\x10" + encode_varint(created)
    pair += b"\x18" + encode_varint(revision)
    pair += b"" if is_deleted else b"\x20" + encode_varint(version)
    pair += encode_delimited(5, value) if value and not is_deleted else b""
    pair += b"\x30" + encode_varint(lease) if draw(st.booleans()) else b""
    message = (b"\x08\x01" if is_deleted else b"") + encode_delimited(2, pair)
    previous = draw(st.one_of(st.none(), st.binary(min_size=1, max_size=9)))
    if previous is not None:
        message += encode_delimited(3, encode_delimited(5, previous))
    text = key.decode(errors="surrogateescape")
    event = KVEvent(text, Revision(revision), None if is_deleted else value, previous)
    return event, message


@given(
    header=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    watch_id=st.integers(0, 300),
    fragment=st.booleans(),
    sent=st.lists(events(), max_size=3),
)
def test_any_events(
    header: tuple[int, int, int, int],
    watch_id: int,
    fragment: bool,
    sent: list[tuple[KVEvent, bytes]],
) -> None:
    """The events of a watch are read with every key, value, revision, lease and old value."""
    numbers = tuple(encode_varint(number) for number in header)
    message = encode_delimited(1, b"\x08%b\x10%b\x18%b\x20%b" % numbers)
    message += b"\x10" + encode_varint(watch_id) if watch_id else b""
    message += b"\x38\x01" if fragment else b""
    message += b"".join(encode_delimited(11, each) for _, each in sent)
    response = WireCodec("").watch(b"/a", b"/b", start=3, previous=True).decode(message)
    assert list(response.events) == [event for event, _ in sent]
    assert response.fragment == fragment


@pytest.mark.parametrize("codec", [WireCodec("/x"), GatewayCodec("/x")], ids=["grpc", "gateway"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@given(response=st.binary(max_size=64))
def test_any_response(codec: Codec, call: Callable[[Codec], Call[Any]], response: bytes) -> None:
    """Any bytes are decoded or Corrupt."""
    with suppress(Corrupt):
        call(codec).decode(response)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@given(
    fields=st.lists(
        st.tuples(st.integers(1, 12), st.sampled_from((0, 1, 2, 5)), st.binary(max_size=16))
    )
)
def test_any_fields(
    call: Callable[[Codec], Call[Any]], fields: list[tuple[int, int, bytes]]
) -> None:
    """Any fields of any wire type are decoded or Corrupt."""
    message = b"".join(
        bytes([number << 3 | wire_type, len(content)]) + content
        for number, wire_type, content in fields
    )
    with suppress(Corrupt):
        call(WireCodec("")).decode(message)
