"""The requests that a test server received: user, verb, target, status, latency, body.

Memory is bounded: the oldest requests are forgotten. Requests of the server's own controllers make
no HTTP request; `server.history` shows what they wrote.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, overload

from msgspec import Struct, field

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.negotiation import negotiate_input
from kapiserver.testing.history.request_filter import RequestFilter

MAX_REQUESTS = 10_000
MAX_BODY_BYTES = 64 << 10
"""Bytes kept of one body."""
MAX_BODIES_BYTES = 16 << 20
"""Bytes kept of all bodies."""


class RequestRecord(Struct, kw_only=True, eq=False):
    """One request.

    number          1 for the first request of the server
    time            when it came, by the server's clock, in seconds since the epoch
    user            the name of the user; of the impersonated user, if there is one
    impersonator    the user who impersonates, or ""
    user_agent      the header
    verb            get, list, watch, create, update, patch, delete, deletecollection; of requests
                    for no resource the method in lower case
    uri             path and query
    resource        plural name, with the group: `pods`, `deployments.apps`; "" for other requests
    subresource     `status`, `scale`, ... or ""
    namespace, name of the path, "" if it has none
    status          HTTP status; None while there is no response and while a stream is open, 0 if
                    the connection was dropped
    seconds         real seconds until the response was made or the stream had ended; None before
    content_type    the media type of the body
    data            the first MAX_BODY_BYTES of the body
    faults          numbers of the faults that were injected
    decode          returns the JSON of `data`. Raises CodecError, ValueError
    """

    number: int
    time: float
    uri: str
    verb: str
    user: str = ""
    impersonator: str = ""
    user_agent: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    status: int | None = None
    seconds: float | None = None
    content_type: str = ""
    data: bytes = b""
    faults: list[int] = field(default_factory=list)
    decode: Callable[[bytes], Any] = lambda _: None

    @property
    def body(self) -> Any:
        """The object or patch that the client sent, as JSON; None if there is none, or it was
        malformed or longer than MAX_BODY_BYTES."""
        try:
            return self.decode(self.data) if self.data else None
        except (CodecError, ValueError):
            return None

    @property
    def object_name(self) -> str:
        """The name in the path, or that of the object to create; "" if the server generates it."""
        return self.name or (name_in_body(self.body) if self.verb == "create" else "")

    @property
    def target(self) -> str:
        """Resource and object: `deployments.apps/status default/web`."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        path = "/".join(part for part in (self.namespace, self.object_name) if part)
        return " ".join(part for part in (resource, path) if part) or self.uri

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON: all fields, `time` in RFC 3339, and `body`."""
        names = (
            "number", "user", "impersonator", "user_agent", "verb", "uri", "resource",
            "subresource", "namespace", "name", "status", "seconds", "content_type", "faults",
        )  # fmt: skip
        at = datetime.fromtimestamp(self.time, UTC).isoformat()
        return {"time": at, **{name: getattr(self, name) for name in names}, "body": self.body}

    def __str__(self) -> str:
        status = {None: "...", 0: "dropped"}.get(self.status, str(self.status))
        note = f" (faults {', '.join(map(str, self.faults))})" if self.faults else ""
        return f"#{self.number} {self.user} {self.verb} {self.target}: {status}{note}"


class Requests(Sequence[RequestRecord]):
    """The requests of one server, the oldest first.

    on_change   called when a request comes or ends
    before      awaited before a request is handled
    check       raises ValueError for a filter that no request can match
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        before: Callable[[Request], Awaitable[None]],
        check: Callable[[RequestFilter], None],
    ) -> None:
        self._on_change = on_change
        self._before = before
        self._check = check
        self._records: deque[RequestRecord] = deque()
        self._by_request: dict[int, RequestRecord] = {}
        self._number = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> RequestRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[RequestRecord]: ...
    def __getitem__(self, index: int | slice) -> RequestRecord | list[RequestRecord]:
        return list(self._records)[index]

    def __iter__(self) -> Iterator[RequestRecord]:
        return iter(list(self._records))

    def select(
        self,
        *,
        verb: str | Sequence[str] = "",
        resource: str | Sequence[str] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        user_agent: str = "",
        status: int | None = None,
    ) -> list[RequestRecord]:
        """Return the requests that all arguments match; they are those of faults. Raises
        ValueError for a verb or a resource that no request has."""
        request_filter = RequestFilter.of(
            verb=verb,
            resource=resource,
            namespace=namespace,
            name=name,
            user=user,
            user_agent=user_agent,
        )
        self._check(request_filter)
        return [
            record
            for record in self
            if status in (None, record.status) and _matches(request_filter, record)
        ]

    def clear(self) -> None:
        """Forget the requests that have come so far."""
        self._records.clear()
        self._bytes = 0

    # The filter.

    def filter(self, server: Server, next_handler: Handler) -> Handler:
        """Record each request; a `Filter` of the server."""

        async def handle(request: Request) -> AnyResponse:
            self._add(server, request)
            request.on_complete(self._complete)
            await self._before(request)
            response = await next_handler(request)
            self._respond(request, response)
            return response

        return handle

    def record_of(self, request: Request) -> RequestRecord | None:
        """Return the record of a request that has not ended."""
        return self._by_request.get(id(request))

    def record_fault(self, record: RequestRecord, number: int) -> None:
        """Record that a fault was injected into a request."""
        record.faults.append(number)
        self._on_change()

    def _add(self, server: Server, request: Request) -> None:
        info = request.info
        group = info.version.group
        self._number += 1
        record = RequestRecord(
            number=self._number,
            time=server.clock.now(),
            uri=request.uri or request.path,
            verb=info.verb,
            user_agent=request.header("User-Agent"),
            resource=f"{info.resource}.{group}" if group and info.resource else info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            content_type=request.header("Content-Type"),
        )
        self._by_request[id(request)] = record
        self._records.append(record)
        self._on_change()
        self._keep_body(server, request, record)
        if len(self._records) > MAX_REQUESTS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._bytes -= len(self._records.popleft().data)

    def _is_kept(self, record: RequestRecord) -> bool:
        return bool(self._records) and record.number >= self._records[0].number

    def _keep_body(self, server: Server, request: Request, record: RequestRecord) -> None:
        """Read the body once, for the record, faults and the handler. To avoid a reference cycle,
        `read_body` and the record do not refer to the request."""
        read, body = request.read_body, None
        record.decode = functools.partial(
            decode_body, server.codecs, record.content_type, request.info.version
        )

        async def read_body(limit: int) -> bytes:
            nonlocal body
            if body is None:
                body = await read(limit)
                record.data = body[:MAX_BODY_BYTES]
                if self._is_kept(record):  # it may be forgotten before its body comes
                    self._bytes += len(record.data)
                while self._bytes > MAX_BODIES_BYTES:
                    self._forget_oldest()
            return body

        request.read_body = read_body

    def _respond(self, request: Request, response: AnyResponse) -> None:
        """Fill the record before the client gets the response: a test may read the record at
        once. The status of a stream is recorded at its end."""
        record = self._by_request[id(request)]
        _set_user(record, request)
        if not isinstance(response, StreamResponse):
            record.status = response.status
            record.seconds = time.perf_counter() - request.received
            self._on_change()

    def _complete(self, request: Request) -> None:
        record = self._by_request.pop(id(request))
        _set_user(record, request)
        record.status = request.outcome.status if request.outcome is not None else 0
        if record.seconds is None:
            record.seconds = time.perf_counter() - request.received
        self._on_change()


def _set_user(record: RequestRecord, request: Request) -> None:
    record.user = request.user.name
    record.impersonator = request.impersonator.name if request.impersonator else ""


def _matches(request_filter: RequestFilter, record: RequestRecord) -> bool:
    resource, _, group = record.resource.partition(".")
    return request_filter.matches(
        verb=record.verb,
        resource=resource,
        group=group,
        subresource=record.subresource,
        namespace=record.namespace,
        name=record.object_name,
        user=record.user,
        user_agent=record.user_agent,
    )


def name_in_body(body: Any) -> str:
    """Return metadata.name of a body, or "" if it has none."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def decode_body(codecs: CodecFactory, content_type: str, version: GroupVersion, data: bytes) -> Any:
    """Return a body as JSON: an object of any media type, or a patch. `version` is that of the
    path. Raises CodecError, ValueError."""
    content_type = content_type.partition(";")[0].strip().lower()
    if content_type.endswith(("-patch+json", "/json")) or not content_type:
        from kapiserver.codecs import json

        return json.decode_value(data)
    if content_type.endswith(("-patch+yaml", "/yaml")):
        from kapiserver.codecs import yaml

        return yaml.decode_value(data)
    if content_type.endswith("+cbor"):
        content_type = "application/cbor"
    media = negotiate_input(content_type, codecs.media_types)
    serializer = codecs.limited_serializer_for(media)
    return serializer.decode(data, defaults=version.with_kind("")).object
