"""Parses responses of etcd's JSON gateway.

The gateway writes protobuf's JSON mapping: bytes are base64, 64-bit integers are strings, zero
values are omitted. Takes parsed JSON; knows no connection. Mirrors etcd's rpc.proto (RangeResponse,
TxnResponse, WatchResponse).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv import KeyValue, KVEvent, Revision

GatewayMessage: TypeAlias = Mapping[str, Any]
NO_REVISION = Revision(0)


@dataclass(frozen=True, slots=True)
class RangeResponse:
    """A RangeResponse.

    count           number of keys in the range, whatever the limit
    store_revision  newest revision of the store, also if an older one was read
    """

    items: Sequence[KeyValue]
    count: int
    store_revision: Revision


@dataclass(frozen=True, slots=True)
class TxnResponse:
    """A TxnResponse: `revision` of the write if it succeeded, else `current_revision` of the key
    (0 if absent)."""

    succeeded: bool
    revision: Revision
    current_revision: int


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """A WatchResponse: events, or the end of the watch.

    cancelled   reason of the end, "" while the watch runs
    compacted   oldest revision that can be watched, if the watch asked for an older one
    """

    events: Sequence[KVEvent]
    cancelled: str = ""
    compacted: Revision = NO_REVISION


def base64_text(value: bytes) -> str:
    """Encode bytes for the gateway."""
    return b64encode(value).decode("ascii")


class ResponseParser:
    """Parses responses, and strips `prefix` from the keys."""

    def __init__(self, prefix: str) -> None:
        self._skip = len(prefix.encode())

    def range_response(self, message: GatewayMessage) -> RangeResponse:
        """Parse a RangeResponse. Raises Corrupt, as all methods do, for an invalid response."""
        with _corrupt_errors():
            items = [self._pair(item) for item in message.get("kvs", ())]
            return RangeResponse(items, int(message.get("count", 0)), _revision(message))

    def txn_response(self, message: GatewayMessage) -> TxnResponse:
        """Parse the TxnResponse of a write whose failure branch reads the same key."""
        with _corrupt_errors():
            succeeded, current_revision = bool(message.get("succeeded")), 0
            if not succeeded:
                pairs = message["responses"][0]["response_range"].get("kvs")
                current_revision = _mod_revision(pairs[0]) if pairs else 0
            return TxnResponse(succeeded, _revision(message), current_revision)

    def watch_response(self, message: GatewayMessage) -> WatchResponse:
        """Parse a WatchResponse."""
        with _corrupt_errors():
            events = [self._event(item) for item in message.get("events", ())]
            reason = ""
            if message.get("canceled"):
                reason = message.get("cancel_reason") or "cancelled"
            return WatchResponse(events, reason, Revision(int(message.get("compact_revision", 0))))

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


@contextmanager
def _corrupt_errors() -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(f"etcd sent an invalid response: {error!r}") from error


def _mod_revision(pair: GatewayMessage) -> int:
    return int(pair["mod_revision"])


def _revision(message: GatewayMessage) -> Revision:
    return Revision(int(message["header"]["revision"]))
