"""etcd's messages as its JSON gateway reads and writes them.

The gateway uses protobuf's JSON mapping: bytes are base64, 64-bit integers are strings, zero values
are omitted. Knows no connection. Mirrors etcd's rpc.proto.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import orjson

from kapiserver.storage.errors import Corrupt
from kapiserver.storage.etcd.messages import (
    RangeResponse,
    StatusResponse,
    TxnResponse,
    WatchResponse,
)
from kapiserver.storage.etcd.transport import Call
from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision

GatewayMessage: TypeAlias = Mapping[str, Any]
S = TypeVar("S")
T = TypeVar("T")


def _text(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _call(method: str, request: GatewayMessage, decode: Callable[[bytes], T]) -> Call[T]:
    return Call(method, orjson.dumps(request), decode)


def _decoder(decode: Callable[[S, Any], T]) -> Callable[[S, bytes], T]:
    """Return the decoder for JSON. It raises Corrupt for a malformed response."""

    @wraps(decode)
    def wrapper(codec: S, data: bytes) -> T:
        try:
            return decode(codec, orjson.loads(data))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise Corrupt(f"etcd sent an invalid response: {error!r}") from error

    return wrapper


class GatewayCodec:
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
        request: dict[str, Any] = {"key": _text(key)}
        if end:
            request["range_end"] = _text(end)
        if limit:
            request["limit"] = limit
        if revision:
            request["revision"] = str(revision)
        if count_only:
            request["count_only"] = True
        return _call("/kv/range", request, self._range_response)

    def put_if(
        self, key: bytes, value: bytes, *, expected: int, lease: int = 0
    ) -> Call[TxnResponse]:
        """Encode a request of KV.Txn that puts a value."""
        put = {"key": _text(key), "value": _text(value)}
        if lease:
            put["lease"] = str(lease)
        return self._txn(key, expected, {"request_put": put})

    def delete_if(self, key: bytes, *, expected: int) -> Call[TxnResponse]:
        """Encode a request of KV.Txn that deletes a key."""
        return self._txn(key, expected, {"request_delete_range": {"key": _text(key)}})

    def _txn(self, key: bytes, expected: int, operation: GatewayMessage) -> Call[TxnResponse]:
        name = _text(key)
        compare = {"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": str(expected)}
        request: dict[str, Any] = {"compare": [compare], "success": [operation]}
        if expected:  # the caller of a create does not need the existing value
            request["failure"] = [{"request_range": {"key": name}}]
        return _call("/kv/txn", request, self._txn_response)

    def put(self, key: bytes, value: bytes = b"") -> Call[Revision]:
        """Encode a request of KV.Put."""
        return _call("/kv/put", {"key": _text(key), "value": _text(value)}, self._revision)

    def compact(self, revision: int) -> Call[Revision]:
        """Encode a request of KV.Compact."""
        return _call("/kv/compaction", {"revision": str(revision)}, self._revision)

    def grant_lease(self, ttl: int) -> Call[int]:
        """Encode a request of Lease.LeaseGrant."""
        return _call("/lease/grant", {"TTL": str(ttl)}, self._lease_id)

    def authenticate(self, name: str, password: str) -> Call[str]:
        """Encode a request of Auth.Authenticate."""
        request = {"name": name, "password": password}
        return _call("/auth/authenticate", request, self._token)

    def status(self) -> Call[StatusResponse]:
        """Encode a request of Maintenance.Status."""
        return _call("/maintenance/status", {}, self._status)

    def watch(self, key: bytes, end: bytes, *, start: int, previous: bool) -> Call[WatchResponse]:
        """Encode a request of Watch.Watch."""
        create = {
            "key": _text(key),
            "range_end": _text(end),
            "start_revision": str(start),
            "prev_kv": previous,
            "fragment": True,
        }
        return _call("/watch", {"create_request": create}, self._watch_response)

    # Responses.

    @_decoder
    def _range_response(self, message: GatewayMessage) -> RangeResponse:
        items = [self._pair(item) for item in message.get("kvs", ())]
        return RangeResponse(items, int(message.get("count", 0)), _revision(message))

    @_decoder
    def _txn_response(self, message: GatewayMessage) -> TxnResponse:
        revision = _revision(message)
        if message.get("succeeded"):
            return TxnResponse(True, revision)
        responses = message.get("responses")
        pairs = responses[0]["response_range"].get("kvs") if responses else None
        return TxnResponse(False, revision, self._pair(pairs[0]) if pairs else None)

    @_decoder
    def _watch_response(self, message: GatewayMessage) -> WatchResponse:
        events = [self._event(item) for item in message.get("events", ())]
        reason = ""
        if message.get("canceled"):
            reason = message.get("cancel_reason") or "cancelled"
        compacted = Revision(int(message.get("compact_revision", 0)))
        return WatchResponse(events, reason, compacted, bool(message.get("fragment")))

    @_decoder
    def _revision(self, message: GatewayMessage) -> Revision:
        return _revision(message)

    @_decoder
    def _lease_id(self, message: GatewayMessage) -> int:
        return int(message["ID"])

    @_decoder
    def _token(self, message: GatewayMessage) -> str:
        return str(message["token"])

    @_decoder
    def _status(self, message: GatewayMessage) -> StatusResponse:
        return StatusResponse(
            version=message["version"],
            size=int(message.get("dbSize", 0)),
            in_use=int(message.get("dbSizeInUse", 0)),
            quota=int(message.get("dbSizeQuota", 0)),
            errors=message.get("errors") or [],
        )

    def _pair(self, pair: GatewayMessage) -> KeyValue:
        return KeyValue(
            self._key(pair["key"]), b64decode(pair.get("value", "")), Revision(_mod_revision(pair))
        )

    def _event(self, event: GatewayMessage) -> KVEvent:
        pair, previous = event["kv"], event.get("prev_kv")
        deleted = event.get("type") == "DELETE"
        return KVEvent(
            self._key(pair["key"]),
            Revision(_mod_revision(pair)),
            None if deleted else b64decode(pair.get("value", "")),
            None if previous is None else b64decode(previous.get("value", "")),
        )

    def _key(self, key: str) -> str:
        # Other programs may write keys of any bytes, and watches must not fail on them.
        return b64decode(key)[self._skip :].decode(errors="surrogateescape")


def _mod_revision(pair: GatewayMessage) -> int:
    return int(pair["mod_revision"])


def _revision(message: GatewayMessage) -> Revision:
    return Revision(int(message["header"]["revision"]))
