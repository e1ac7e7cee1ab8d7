"""What happens on an HTTP/2 connection, as `protocol.py` reports it. Pure."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kapiserver.apiserver.serving.http2.request_fields import RequestFields
from kapiserver.apiserver.serving.http2.stream import Stream


class Requested(Struct):
    """A request has begun. A body may follow, even if it is in the same bytes."""

    stream: Stream
    request: RequestFields
    has_body: bool


class BodyReceived(Struct):
    """A piece of a request's body has arrived; `acknowledge` it when a handler has taken it."""

    stream: Stream
    data: bytes


class BodyEnded(Struct):
    """A request's body is whole."""

    stream: Stream


class StreamLost(Struct):
    """A stream has ended before its request or its response was whole."""

    stream: Stream


Event: TypeAlias = Requested | BodyReceived | BodyEnded | StreamLost
