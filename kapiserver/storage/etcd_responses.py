"""What etcd's JSON gateway says, as our own values.

The gateway writes protobuf's JSON: bytes are base64, 64-bit integers are strings, zero values are
left out. Takes parsed JSON; knows no connection. Mirrors etcd's rpc.proto (RangeResponse,
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
    """A read: the pairs, how many there are from the first on, and the newest revision of the
    store, which is not the one read when a past one was asked for."""

    items: Sequence[KeyValue]
    count: int
    store_revision: Revision


@dataclass(frozen=True, slots=True)
class TxnResponse:
    """A write: done at `revision`, or not, and then `current` is where the key is (0: absent)."""

    succeeded: bool
    revision: Revision
    current_revision: int


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """One message of a watch: events, or how it ended.

    cancelled  the reason, "" while it runs; `compacted` is the oldest revision that can be
               watched, where asking for an older one is the reason
    """

    events: Sequence[KVEvent]
    cancelled: str = ""
    compacted: Revision = NO_REVISION


def base64_text(value: bytes) -> str:
    """Bytes as the gateway wants them."""
    return b64encode(value).decode("ascii")


class ResponseParser:
    """Reads answers of a store whose keys all begin with `prefix` in etcd, and without it here."""

    def __init__(self, prefix: str) -> None:
        self._skip = len(prefix.encode())

    def range_response(self, answer: GatewayMessage) -> RangeResponse:
        """Raises Corrupt, as all here do, for what etcd does not say."""
        with _legible():
            items = [self._pair(each) for each in answer.get("kvs", ())]
            return RangeResponse(items, int(answer.get("count", 0)), _revision(answer))

    def txn_response(self, answer: GatewayMessage) -> TxnResponse:
        """Of one write, with a read of the same key where it is not done."""
        with _legible():
            done, current = bool(answer.get("succeeded")), 0
            if not done:
                found = answer["responses"][0]["response_range"].get("kvs")
                current = _at(found[0]) if found else 0
            return TxnResponse(done, _revision(answer), current)

    def watch_response(self, answer: GatewayMessage) -> WatchResponse:
        """One result of a watch's stream."""
        with _legible():
            events = [self._event(each) for each in answer.get("events", ())]
            reason = ""
            if answer.get("canceled"):
                reason = answer.get("cancel_reason") or "cancelled"
            return WatchResponse(events, reason, Revision(int(answer.get("compact_revision", 0))))

    def _pair(self, pair: GatewayMessage) -> KeyValue:
        return KeyValue(
            self._key(pair["key"]), b64decode(pair.get("value", "")), Revision(_at(pair))
        )

    def _event(self, event: GatewayMessage) -> KVEvent:
        pair, before = event["kv"], event.get("prev_kv")
        deleted = event.get("type") == "DELETE"
        return KVEvent(
            self._key(pair["key"]),
            Revision(_at(pair)),
            None if deleted else b64decode(pair.get("value", "")),
            None if before is None else b64decode(before.get("value", "")),
        )

    def _key(self, key: str) -> str:
        # Another program may have put any bytes there, and everybody would be stuck at them.
        return b64decode(key)[self._skip :].decode(errors="surrogateescape")


@contextmanager
def _legible() -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(f"etcd gave an answer that makes no sense: {error!r}") from error


def _at(pair: GatewayMessage) -> int:
    return int(pair["mod_revision"])


def _revision(answer: GatewayMessage) -> Revision:
    return Revision(int(answer["header"]["revision"]))
