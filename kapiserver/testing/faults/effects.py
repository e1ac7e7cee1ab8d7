"""What a fault does to the requests and watches that it matches. Knows no server.

`Faults` (`testing/faults/faults.py`) has one method for each of these records.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Respond(Struct, frozen=True, kw_only=True, tag_field="effect", tag="respond"):
    """Responds with an error.

    message         replaces that of kube-apiserver unless it is ""
    retry_after     seconds of Retry-After, for 429 and 503
    after_write     responds after the handler has written
    """

    status: int
    message: str
    retry_after: int
    after_write: bool

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ValueError(f"status must be 400 to 599, not {self.status}")


class Delay(Struct, frozen=True, kw_only=True, tag_field="effect", tag="delay"):
    """Waits in real time, before the handler runs or after it has written."""

    seconds: float
    after_write: bool


class Drop(Struct, frozen=True, kw_only=True, tag_field="effect", tag="drop"):
    """Closes the connection without a response, before the handler runs or after it has written."""

    after_write: bool


class Partition(Struct, frozen=True, kw_only=True, tag_field="effect", tag="partition"):
    """Holds requests and the events of watches back until the fault is removed."""


class ReadStale(Struct, frozen=True, kw_only=True, tag_field="effect", tag="read_stale"):
    """Answers get and list with the state in which the server was when the fault was added."""


class EndWatches(Struct, frozen=True, kw_only=True, tag_field="effect", tag="end_watches"):
    """Ends watches.

    seconds     how many seconds of real time to wait first
    abort       closes the connection without the end of the stream
    """

    seconds: float
    abort: bool


class ExpireWatches(Struct, frozen=True, kw_only=True, tag_field="effect", tag="expire_watches"):
    """Ends watches with the event ERROR, 410 Expired; waits `seconds` of real time first."""

    seconds: float


WatchEnd: TypeAlias = EndWatches | ExpireWatches
Effect: TypeAlias = Respond | Delay | Drop | Partition | ReadStale | WatchEnd
