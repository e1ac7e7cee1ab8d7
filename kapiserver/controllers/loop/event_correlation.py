"""Which events are written, and which are counted, combined or dropped.

| rule | events | what happens |
| --- | --- | --- |
| combine | 10 messages of one object, type and reason, each within 10 minutes | one event |
| count | the same again | the count of the first event increases |
| limit | more than 25 of one object and type, and one more every 5 minutes | not written |

Mirrors EventCorrelator of client-go's tools/record.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct, field

_MAX_MESSAGES = 10
_SIMILAR_SECONDS = 600.0
_BURST = 25
_REFILL_SECONDS = 300.0
_MAX_RECORDS = 4096
_COMBINED = "(combined from similar events): "


class ObservedEvent(NamedTuple):
    """An event as a controller reports it.

    involved  what identifies its object: kind, version, namespace, name and uid
    """

    involved: tuple[str, ...]
    type: str
    reason: str
    message: str


class Occurrences(Struct):
    """All occurrences of one event.

    name     the name of the event's object, once it is written
    first    the time of the first one, in seconds since 1970
    message  the message of the last one
    """

    first: float
    count: int = 0
    message: str = ""
    name: str = ""


class _Similar(Struct):
    """Events that differ only in their messages, the oldest first, and the time of the last one."""

    last: float
    messages: dict[str, None] = field(default_factory=dict)


class _Bucket(Struct):
    """The tokens that one object had at `time`."""

    time: float
    tokens: float = _BURST


Record = TypeVar("Record")


class _Recent(Generic[Record]):
    """The records that were used last, by key."""

    def __init__(self, new: Callable[[float], Record]) -> None:
        self._new = new
        self._records: OrderedDict[object, Record] = OrderedDict()

    def get(self, key: object, now: float) -> Record:
        """Return the record of a key, or a new one."""
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = self._new(now)
            if len(self._records) > _MAX_RECORDS:
                self._records.popitem(last=False)
        self._records.move_to_end(key)
        return record


class EventCorrelator:
    """The recent events of one controller."""

    def __init__(self) -> None:
        self._similar = _Recent(_Similar)
        self._occurrences = _Recent(Occurrences)
        self._buckets = _Recent(_Bucket)

    def correlate(self, event: ObservedEvent, now: float) -> Occurrences | None:
        """Return the occurrences to write, this one included; None if none is written now."""
        key: tuple[object, ...] = event
        message = event.message
        if self._is_combined(event, now):
            key, message = event[:-1], _COMBINED + message
        occurrences = self._occurrences.get(key, now)
        occurrences.count += 1
        occurrences.message = message
        return occurrences if self._take_token(event, now) else None

    def _is_combined(self, event: ObservedEvent, now: float) -> bool:
        similar = self._similar.get(event[:-1], now)
        if now - similar.last > _SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages[event.message] = None
        if len(similar.messages) < _MAX_MESSAGES:
            return False
        del similar.messages[next(iter(similar.messages))]
        return True

    def _take_token(self, event: ObservedEvent, now: float) -> bool:
        bucket = self._buckets.get((event.involved, event.type), now)
        refill = max(0.0, now - bucket.time) / _REFILL_SECONDS
        bucket.tokens, bucket.time = min(_BURST, bucket.tokens + refill), now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
