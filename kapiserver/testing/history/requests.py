"""The requests that a test server received: user, verb, target, status, latency, body.

Memory is bounded: the oldest requests are forgotten. The server's own controllers make no HTTP
requests; `server.objects.history` shows what they wrote.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Unpack, overload

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.testing.durations import Duration, parse_seconds
from kapiserver.testing.history.hot_loops import WRITES, check_for_hot_loops
from kapiserver.testing.history.request_filter import RequestFilter, Selection
from kapiserver.testing.history.request_record import MAX_BODY_BYTES, RequestRecord, decode_body
from kapiserver.testing.state.kinds import check_plural
from kapiserver.testing.subject import ServerLoop, Subject

MAX_REQUESTS = 10_000
MAX_BODIES_BYTES = 16 << 20
"""Bytes kept of all bodies."""


class Requests(Subject, Sequence[RequestRecord]):
    """The requests that a server received, the oldest first."""

    def __init__(
        self,
        loop: ServerLoop,
        on_change: Callable[[], None],
        before: Callable[[Request], Awaitable[None]],
    ) -> None:
        super().__init__(loop)
        self._on_change = on_change
        """Called when a request comes or ends."""
        self._before = before
        """Awaited before a request is handled."""
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
        self, *, status: int | None = None, **selection: Unpack[Selection]
    ) -> list[RequestRecord]:
        """Return the requests that all arguments match. The arguments `selection` are those of
        faults: verb, resource, namespace, name, user and user_agent. Raises ValueError for a verb
        or a resource that no request has."""
        request_filter = RequestFilter.of(**selection)
        self.check(request_filter)
        return [
            record
            for record in self
            if status in (None, record.status) and _matches(request_filter, record)
        ]

    def assert_no_hot_loop(
        self, *, requests: int = 10, within: Duration = "10s", **selection: Unpack[Selection]
    ) -> None:
        """Raise AssertionError if one client (user and User-Agent) sent more than `requests`
        requests with the same verb for the same object within the time `within` of the server's
        clock. The arguments `selection` select requests as in `select`; without a verb, those that
        write. The message compares the last two bodies."""
        selection.setdefault("verb", WRITES)
        records = self.select(**selection)
        check_for_hot_loops(records, requests=requests, within=parse_seconds(within))

    def check(self, request_filter: RequestFilter) -> None:
        """Raise ValueError for a name of a resource that no request has, such as its singular."""
        for text in request_filter.resources if self._server_loop.is_running else ():
            self._server_loop.call(functools.partial(check_plural, self._server.scheme, text))

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
            record.seconds = time.perf_counter() - request.trace.start
            self._on_change()

    def _complete(self, request: Request) -> None:
        record = self._by_request.pop(id(request))
        _set_user(record, request)
        record.status = request.outcome.status if request.outcome is not None else 0
        if record.seconds is None:
            record.seconds = time.perf_counter() - request.trace.start
        self._on_change()


def _set_user(record: RequestRecord, request: Request) -> None:
    record.user = request.user.name
    record.impersonator = request.impersonator.user.name if request.impersonator else ""


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
