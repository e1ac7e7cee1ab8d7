"""The interface of the etcd client's transports: gRPC, and etcd's JSON gateway.

A codec encodes each request as a `Call`, which has the decoder of the response; a transport moves
the bytes to one endpoint. Knows no list of endpoints, no login and no retry (`client.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.etcd.messages import (
    RangeResponse,
    StatusResponse,
    TxnResponse,
    WatchResponse,
)
from kapiserver.storage.kv.contract import Revision

CALL_SECONDS = 5.0
"""Timeout of one call to one endpoint."""
CONNECT_SECONDS = 2.0
MAX_MESSAGE_BYTES = 512 << 20
"""Maximum bytes of a response."""
DEFAULT_PORT = 2379

T = TypeVar("T")


class RequestNotSent(Exception):
    """The server has not processed the request: no connection, or none was free in time."""


class ResponseLost(Exception):
    """The request was sent and no response received: the server may have processed it."""


class EtcdError(StorageError):
    """etcd refused a request; `code` is the gRPC status code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


_UNAVAILABLE_CODES = (1, 4, 14)
"""The gRPC status codes Canceled, DeadlineExceeded and Unavailable."""


def refusal(code: int, message: str) -> StorageError:
    """Return the error of a gRPC status: EtcdError, or Unavailable if the request may succeed
    later."""
    if code in _UNAVAILABLE_CODES:
        return Unavailable(f"etcd: {message}")
    return EtcdError(code, message)


class Call(Struct, Generic[T], frozen=True):
    """One encoded request: its method, its message, and the decoder of a response, which raises
    Corrupt."""

    method: str
    message: bytes
    decode: Callable[[bytes], T]


class Codec(Protocol):
    """Encodes requests. `key` and `end` are whole keys of etcd; a range is [key, end), or one key
    if `end` is empty. The keys of responses are without the store's prefix."""

    def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        limit: int = 0,
        revision: int = 0,
        count_only: bool = False,
    ) -> Call[RangeResponse]:
        """Encode a request of KV.Range; revision 0 reads the newest."""

    def put_if(
        self, key: bytes, value: bytes, *, expected: int, lease: int = 0
    ) -> Call[TxnResponse]:
        """Encode a request of KV.Txn that puts a value if the key's mod_revision is `expected`, 0
        for an absent key. If it is not, the response to an update has the current value."""

    def delete_if(self, key: bytes, *, expected: int) -> Call[TxnResponse]:
        """Encode a request of KV.Txn that deletes a key if its mod_revision is `expected`, and else
        returns its value."""

    def put(self, key: bytes, value: bytes = b"") -> Call[Revision]:
        """Encode a request of KV.Put; the response is the revision of the write."""

    def compact(self, revision: int) -> Call[Revision]:
        """Encode a request of KV.Compact; the response is the current revision."""

    def grant_lease(self, ttl: int) -> Call[int]:
        """Encode a request of Lease.LeaseGrant; the response is the ID of the lease, which lives
        `ttl` seconds."""

    def authenticate(self, name: str, password: str) -> Call[str]:
        """Encode a request of Auth.Authenticate; the response is the token."""

    def status(self) -> Call[StatusResponse]:
        """Encode a request of Maintenance.Status, which the member that gets it answers."""

    def watch(self, key: bytes, end: bytes, *, start: int, previous: bool) -> Call[WatchResponse]:
        """Encode a request of Watch.Watch from revision `start`; with `previous`, events have the
        old value."""


class MessageStream(Protocol):
    """The encoded responses of a stream, as long as it is open. Each step of an iteration waits for
    one, and yields all that have arrived by then."""

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        """Iterate until the server ends the stream. Raises ResponseLost, and the error of
        `refusal`."""

    def close(self) -> None:
        """End the stream; iteration raises ResponseLost or ends. Idempotent."""


class Transport(Protocol):
    """Moves messages to and from endpoints, which are URLs, and keeps connections to them."""

    @property
    def codec(self) -> Codec:
        """The codec of its messages."""

    async def call(self, endpoint: str, method: str, message: bytes, token: str) -> bytes:
        """Send a request and return the response. Raises RequestNotSent, ResponseLost, and the
        error of `refusal`, within about CALL_SECONDS.

        token   the token of the logged-in user, "" for none
        """

    def stream(
        self, endpoint: str, method: str, message: bytes, token: str
    ) -> AbstractAsyncContextManager[MessageStream]:
        """Open a stream with one request. Raises like `call`, but the stream has no timeout."""

    async def close(self) -> None:
        """Close all connections. Idempotent."""
