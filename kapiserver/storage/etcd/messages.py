"""Responses of etcd as the store uses them, the same for both transports.

Mirrors etcd's rpc.proto: RangeResponse, TxnResponse, WatchResponse, StatusResponse.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision

NO_REVISION = Revision(0)


class RangeResponse(Struct):
    """A RangeResponse.

    count           number of keys in the range, whatever the limit
    store_revision  newest revision of the store, also if an older one was read
    """

    items: Sequence[KeyValue]
    count: int
    store_revision: Revision


class TxnResponse(Struct):
    """A TxnResponse: `revision` of the write if it succeeded, else the `current` key-value pair
    (None if it is absent or was not asked for)."""

    succeeded: bool
    revision: Revision
    current: KeyValue | None = None


class WatchResponse(Struct):
    """A WatchResponse: events, or the end of the watch.

    cancelled   reason of the end, "" while the watch runs
    compacted   oldest revision that can be watched, if the watch asked for an older one
    fragment    the next response has more events, perhaps of the last event's revision
    """

    events: Sequence[KVEvent]
    cancelled: str = ""
    compacted: Revision = NO_REVISION
    fragment: bool = False


class StatusResponse(Struct, frozen=True, kw_only=True):
    """A StatusResponse: what one member says about itself.

    version     such as "3.6.1"
    size        bytes of the database file
    in_use      bytes of it that are not free
    quota       bytes above which etcd refuses writes; 0 before etcd 3.6, which does not say
    errors      alarms, in etcd's words
    """

    version: str
    size: int
    in_use: int
    quota: int
    errors: Sequence[str]
