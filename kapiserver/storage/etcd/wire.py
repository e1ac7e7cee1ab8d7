"""etcd's messages in the Protobuf wire format, for its gRPC.

Encodes the requests that the store sends, and decodes the parts of the responses that it uses.
Mirrors etcd's rpc.proto and kv.proto; a comment beside a constant names its field there. Knows no
connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from kapiserver.codecs.errors import Malformed
from kapiserver.codecs.protobuf.wire import (
    BYTES,
    VARINT,
    encode_delimited,
    encode_varint,
    read_varint,
    skip_field,
)
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.etcd.messages import (
    RangeResponse,
    StatusResponse,
    TxnResponse,
    WatchResponse,
)
from kapiserver.storage.etcd.transport import Call
from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision

T = TypeVar("T")
S = TypeVar("S")

_COMPARE_MOD = b"\x10\x02\x1a"  # Compare.target, and the tag of Compare.key
_MOD_REVISION = b"\x30"  # Compare.mod_revision
_LEASE = b"\x18"  # PutRequest.lease
_LIMIT, _REVISION = b"\x18", b"\x20"  # RangeRequest
_COUNT_ONLY = b"\x48\x01"  # RangeRequest
_START_REVISION = b"\x18"  # WatchCreateRequest
_PREV_KV, _FRAGMENT = b"\x30\x01", b"\x40\x01"  # WatchCreateRequest

_KEY = 0x0A  # KeyValue.key
_ANY_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
_HEADER_START = re.compile(rb"\x08%b\x10%b\x18" % (_ANY_VARINT, _ANY_VARINT))
"""A ResponseHeader as etcd writes it, up to its revision: cluster_id, member_id."""
_SUCCESS = re.compile(
    rb"\x0a[\x00-\x7f]\x08%b\x10%b\x18(%b)\x20%b\x10\x01"
    % (_ANY_VARINT, _ANY_VARINT, _ANY_VARINT, _ANY_VARINT)
)
"""A TxnResponse of a transaction that succeeded, up to its responses: a ResponseHeader and
succeeded."""
_PAIR_AFTER_KEY = re.compile(
    rb"\x10%b\x18(%b)\x20%b(?:\x2a(%b))?" % (_ANY_VARINT, _ANY_VARINT, _ANY_VARINT, _ANY_VARINT)
)
"""A KeyValue as etcd writes it, from its key to its value: create_revision, mod_revision, version
and the length of the value. A lease may follow the value."""
_LEASE_OF_PAIR = re.compile(rb"\x30%b" % _ANY_VARINT)

_EVENTS_START = re.compile(
    rb"\x0a[\x00-\x7f]\x08%b\x10%b\x18%b\x20%b(?:\x10%b)?(?=\x5a)" % ((_ANY_VARINT,) * 5)
)
"""A WatchResponse with events, up to the first of them: a ResponseHeader, and watch_id."""
_EVENT_OF_PUT = re.compile(rb"\x5a(?:%b)\x12(?:%b)\x0a([\x00-\x7f])" % (_ANY_VARINT, _ANY_VARINT))
"""WatchResponse.events, up to the key of a put: the sizes of Event, KeyValue and key."""

Fields = list[tuple[int, int | bytes]]


def _fields(data: bytes) -> Fields:
    """Return the numbers and values of a message's varints, strings and messages. Raises Malformed,
    IndexError if the message is truncated."""
    fields: Fields = []
    at, size = 0, len(data)
    while at < size:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = read_varint(data, at - 1)
        value: int | bytes
        if tag & 7 == BYTES:
            length = data[at]
            at += 1
            if length > 127:
                length, at = read_varint(data, at - 1)
            value = data[at : at + length]
            at += length
        elif tag & 7 == VARINT:
            value, at = read_varint(data, at)
        else:
            at = skip_field(data, at, tag, {})
            continue
        fields.append((tag >> 3, value))
    if at != size:
        raise Malformed("proto: a field exceeds its message")
    return fields


def _message(data: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message without repeated fields."""
    return dict(_fields(data))


def _number(value: int | bytes | None) -> int:
    if isinstance(value, bytes):
        raise Malformed("proto: wrong wireType = 2")
    return value or 0


def _bytes(value: int | bytes | None) -> bytes:
    if isinstance(value, int):
        raise Malformed("proto: wrong wireType = 0")
    return value or b""


def _pair(data: bytes) -> tuple[bytes, bytes, int]:
    """Return the key, value and mod_revision of a KeyValue. Raises like `_fields`."""
    if len(data) > 2 and data[0] == _KEY and data[1] < 128:
        end = 2 + data[1]
        if match := _PAIR_AFTER_KEY.match(data, end):  # a third of the time of `_fields`
            start = match.end()
            value_end = start + (read_varint(data, match.start(2))[0] if match[2] else 0)
            if value_end == len(data) or _LEASE_OF_PAIR.fullmatch(data, value_end):
                return data[2:end], data[start:value_end], read_varint(data, match.start(1))[0]
    fields = _message(data)
    return _bytes(fields.get(1)), _bytes(fields.get(5)), _number(fields.get(3))


def _header_revision(header: int | bytes | None) -> Revision:
    header = _bytes(header)
    if match := _HEADER_START.match(header):  # spares reading the IDs, two varints of ten bytes
        return Revision(read_varint(header, match.end())[0])
    return Revision(_number(_message(header).get(3)))


def _decoder(decode: Callable[[S, bytes], T]) -> Callable[[S, bytes], T]:
    """Return the decoder such that it raises Corrupt for a malformed response."""

    @wraps(decode)
    def wrapper(codec: S, data: bytes) -> T:
        try:
            return decode(codec, data)
        except (Malformed, IndexError) as error:
            raise Corrupt(f"etcd sent an invalid response: {error!r}") from error

    return wrapper


class WireCodec:
    """Encodes requests and decodes responses; see `Codec` for the methods."""

    def __init__(self, prefix: str) -> None:
        self._skip = len(prefix.encode())

    def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        limit: int = 0,
        revision: int = 0,
        count_only: bool = False,
    ) -> Call[RangeResponse]:
        """Encode a request of KV.Range."""
        message = encode_delimited(1, key)
        if end:
            message += encode_delimited(2, end)
        if limit:
            message += _LIMIT + encode_varint(limit)
        if revision:
            message += _REVISION + encode_varint(revision)
        if count_only:
            message += _COUNT_ONLY
        return Call("etcdserverpb.KV/Range", message, self._range_response)

    def put_if(
        self, key: bytes, value: bytes, *, expected: int, lease: int = 0
    ) -> Call[TxnResponse]:
        """Encode a request of KV.Txn that puts a value."""
        sized_key = encode_varint(len(key)) + key
        put = b"\x0a%b\x12%b%b" % (sized_key, encode_varint(len(value)), value)
        if lease:
            put += _LEASE + encode_varint(lease)
        return self._txn(sized_key, expected, b"\x12%b%b" % (encode_varint(len(put)), put))

    def delete_if(self, key: bytes, *, expected: int) -> Call[TxnResponse]:
        """Encode a request of KV.Txn that deletes a key."""
        sized_key = encode_varint(len(key)) + key
        return self._txn(sized_key, expected, encode_delimited(3, b"\x0a" + sized_key))

    def _txn(self, sized_key: bytes, expected: int, operation: bytes) -> Call[TxnResponse]:
        compare = b"%b%b%b%b" % (_COMPARE_MOD, sized_key, _MOD_REVISION, encode_varint(expected))
        message = b"\x0a%b%b\x12%b%b" % (
            encode_varint(len(compare)), compare, encode_varint(len(operation)), operation,
        )  # fmt: skip
        if expected:  # the caller of a create does not need the existing value
            message += encode_delimited(3, encode_delimited(1, b"\x0a" + sized_key))
        return Call("etcdserverpb.KV/Txn", message, self._txn_response)

    def put(self, key: bytes, value: bytes = b"") -> Call[Revision]:
        """Encode a request of KV.Put."""
        message = encode_delimited(1, key) + encode_delimited(2, value)
        return Call("etcdserverpb.KV/Put", message, self._revision)

    def compact(self, revision: int) -> Call[Revision]:
        """Encode a request of KV.Compact."""
        message = b"\x08" + encode_varint(revision)
        return Call("etcdserverpb.KV/Compact", message, self._revision)

    def grant_lease(self, ttl: int) -> Call[int]:
        """Encode a request of Lease.LeaseGrant."""
        message = b"\x08" + encode_varint(ttl)
        return Call("etcdserverpb.Lease/LeaseGrant", message, self._lease_id)

    def authenticate(self, name: str, password: str) -> Call[str]:
        """Encode a request of Auth.Authenticate."""
        message = encode_delimited(1, name.encode()) + encode_delimited(2, password.encode())
        return Call("etcdserverpb.Auth/Authenticate", message, self._token)

    def status(self) -> Call[StatusResponse]:
        """Encode a request of Maintenance.Status."""
        return Call("etcdserverpb.Maintenance/Status", b"", self._status)

    def watch(self, key: bytes, end: bytes, *, start: int, previous: bool) -> Call[WatchResponse]:
        """Encode a request of Watch.Watch."""
        create = (
            encode_delimited(1, key)
            + encode_delimited(2, end)
            + _START_REVISION
            + encode_varint(start)
            + (_PREV_KV if previous else b"")
            + _FRAGMENT
        )
        message = encode_delimited(1, create)
        return Call("etcdserverpb.Watch/Watch", message, self._watch_response)

    # Responses.

    @_decoder
    def _range_response(self, data: bytes) -> RangeResponse:
        items: list[KeyValue] = []
        revision, count = Revision(0), 0
        for number, value in _fields(data):
            if number == 2:
                items.append(self._item(_bytes(value)))
            elif number == 1:
                revision = _header_revision(value)
            elif number == 4:
                count = _number(value)
        if not revision:
            raise Malformed("no header")
        return RangeResponse(items, count, revision)

    @_decoder
    def _txn_response(self, data: bytes) -> TxnResponse:
        match = _SUCCESS.match(data)
        if match and match.end() == 4 + data[1]:  # a fifth of the time of `_fields`
            return TxnResponse(True, Revision(read_varint(data, match.start(1))[0]))
        fields = _message(data)
        revision = _header_revision(fields.get(1))
        if fields.get(2):
            return TxnResponse(True, revision)
        pair = _message(_bytes(_message(_bytes(fields.get(3))).get(1))).get(2)
        return TxnResponse(False, revision, None if pair is None else self._item(_bytes(pair)))

    @_decoder
    def _watch_response(self, data: bytes) -> WatchResponse:
        if puts := self._puts(data):
            return WatchResponse(puts)
        events: list[KVEvent] = []
        other_fields: dict[int, int | bytes] = {}
        for number, value in _fields(data):
            if number == 11:
                events.append(self._event(_bytes(value)))
            else:
                other_fields[number] = value
        cancelled = ""
        if other_fields.get(4):
            cancelled = _bytes(other_fields.get(6)).decode(errors="replace") or "cancelled"
        compacted = Revision(_number(other_fields.get(5)))
        return WatchResponse(events, cancelled, compacted, bool(other_fields.get(7)))

    def _puts(self, data: bytes) -> list[KVEvent] | None:
        """Return the events of a response that has nothing but puts, in a third of the time of
        `_fields`. None: it has something else, or is malformed."""
        if not (match := _EVENTS_START.match(data)) or match.end() < 2 + data[1]:
            return None
        events: list[KVEvent] = []
        at, size = match.end(), len(data)
        while at < size:
            if not (event := _EVENT_OF_PUT.match(data, at)):
                return None
            key_end = event.end() + event[1][0]
            if not (pair := _PAIR_AFTER_KEY.match(data, key_end)):
                return None
            value_at = pair.end()
            value_end = value_at + (read_varint(data, pair.start(2))[0] if pair[2] else 0)
            # The event ends where the value or the lease ends, else it has more.
            length, start = read_varint(data, event.start() + 1)
            at = start + length
            if at != value_end and not _LEASE_OF_PAIR.fullmatch(data, value_end, at):
                return None
            key = self._key(data[event.end() : key_end])
            revision = Revision(read_varint(data, pair.start(1))[0])
            events.append(KVEvent(key, revision, data[value_at:value_end], None))
        return events if at == size else None

    @_decoder
    def _revision(self, data: bytes) -> Revision:
        return _header_revision(_message(data).get(1))

    @_decoder
    def _lease_id(self, data: bytes) -> int:
        return _number(_message(data).get(2))

    @_decoder
    def _token(self, data: bytes) -> str:
        return _bytes(_message(data).get(2)).decode(errors="replace")

    @_decoder
    def _status(self, data: bytes) -> StatusResponse:
        fields = _fields(data)
        last = dict(fields)
        return StatusResponse(
            version=_bytes(last.get(2)).decode(errors="replace"),
            size=_number(last.get(3)),
            in_use=_number(last.get(9)),
            quota=_number(last.get(12)),
            errors=[
                _bytes(value).decode(errors="replace") for number, value in fields if number == 8
            ],
        )

    def _item(self, data: bytes) -> KeyValue:
        key, value, revision = _pair(data)
        return KeyValue(self._key(key), value, Revision(revision))

    def _event(self, data: bytes) -> KVEvent:
        deleted, pair, previous = False, b"", None
        for number, value in _fields(data):
            if number == 2:
                pair = _bytes(value)
            elif number == 1:
                deleted = bool(value)
            elif number == 3:
                previous = _pair(_bytes(value))[1]
        key, content, revision = _pair(pair)
        return KVEvent(self._key(key), Revision(revision), None if deleted else content, previous)

    def _key(self, key: bytes) -> str:
        # Other programs may write keys of any bytes, and watches must not fail on them.
        return key[self._skip :].decode(errors="surrogateescape")
