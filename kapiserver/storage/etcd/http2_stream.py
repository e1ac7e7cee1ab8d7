"""The client's end of one HTTP/2 stream. Knows no frame; `http2.py` calls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeAlias

Headers: TypeAlias = Mapping[bytes, bytes]
"""The headers or trailers of a response by name; the last of equal names counts."""

NEVER = float("inf")


class Stream(ABC):
    """The client's end of one stream: a request, and the handlers of its response.

    deadline    time of the event loop after which the stream is lost
    paused      whether to acknowledge no more data; call `acknowledge` afterwards
    """

    __slots__ = ("deadline", "ended", "id", "paused", "send_window", "unacknowledged", "unsent")

    def __init__(self, deadline: float = NEVER) -> None:
        self.id = 0
        self.deadline = deadline
        self.paused = False
        self.ended = False
        self.send_window = 0
        self.unacknowledged = 0
        self.unsent = b""

    @abstractmethod
    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """Receive the response's headers or its trailers."""

    @abstractmethod
    def on_data(self, data: bytes) -> None:
        """Receive a piece of the response's body. Raises ProtocolError."""

    @abstractmethod
    def on_lost(self, reason: str, *, processed: bool) -> None:
        """The stream has ended without all of its response. `processed` is False if the server
        certainly has not processed the request."""
