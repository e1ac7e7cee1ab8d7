"""Faults that a test injects into requests: errors, delays, dropped connections and watches, stale
reads, partitions.

A fault stands between authorization and the handler (`apiserver/filters/faults.py`), so it knows
the user. It changes requests over HTTP only, not those of the server's own controllers. Delays are
in real time, because clients count their time-outs in it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.handlers.watch import watch_framer
from kapiserver.apiserver.endpoints.negotiation import negotiate_stream
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.storage.errors import Expired
from kapiserver.testing.clock import Duration, parse_seconds
from kapiserver.testing.held_sink import HeldSink
from kapiserver.testing.host import Host
from kapiserver.testing.injected_errors import injected_error
from kapiserver.testing.request_filter import RequestFilter
from kapiserver.testing.requests import Requests, decode_body, name_in_body
from kapiserver.testing.stale_reads import stale_response

MAX_FAULTS = 1000


@dataclass(kw_only=True, eq=False)
class Fault:
    """One fault; `Faults.add` explains the fields. As a context manager it removes itself at the
    end of the block."""

    filter: RequestFilter
    status: int
    message: str
    retry_after: int
    times: int | None
    delay: float
    probability: float
    after_write: bool
    drop_connection: bool
    drop_watch: bool
    expire_watch: bool
    stale_reads: bool
    partition: bool
    number: int = 0
    """The fault's number, from 1."""
    injected: int = 0
    """The number of requests and watches that it has affected."""
    revision: int = 0
    """The revision that stale reads show."""
    rng: random.Random = field(default_factory=random.Random, repr=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the fault is removed; requests behind a partition wait for it."""
    on_remove: Callable[[Fault], None] = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        effects = (self.status, self.delay, self.drop_connection, self.ends_watches)
        if not any(effects) and not self.stale_reads and not self.partition:
            raise ValueError("a fault needs status, delay, drop_connection or another effect")
        if self.status and not 400 <= self.status <= 599:
            raise ValueError(f"status must be 400 to 599, not {self.status}")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be at least 1, not {self.times}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability must be 0 to 1, not {self.probability}")

    def remove(self) -> None:
        """Stop injecting the fault; a partition heals. Idempotent."""
        self.on_remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def to_dict(self) -> dict[str, Any]:
        """Return the fault as JSON, with the arguments of `Faults.add` and what it has done."""
        names = (
            "number", "status", "message", "retry_after", "times", "delay", "probability",
            "after_write", "drop_connection", "drop_watch", "expire_watch", "stale_reads",
            "partition", "injected",
        )  # fmt: skip
        return {**asdict(self.filter), **{name: getattr(self, name) for name in names}}

    @property
    def is_used_up(self) -> bool:
        """Whether it affects no more requests, not even those that wait for the end of a
        partition."""
        return self.times is not None and self.injected >= self.times and not self.partition

    @property
    def ends_watches(self) -> bool:
        """Whether it ends watches that are open."""
        return self.drop_watch or self.expire_watch

    def take(self) -> bool:
        """Count one more request and return True; return False if the fault is used up, or if its
        probability spares the request."""
        if self.times is not None and self.injected >= self.times:
            return False
        if self.probability < 1 and self.rng.random() >= self.probability:
            return False
        self.injected += 1
        return True


@dataclass(frozen=True, eq=False)
class _OpenWatch:
    """A watch that is open, and how to write the frame of an error to it."""

    request: Request
    sink: HeldSink
    error_frame: Callable[[Exception], bytes]


class Faults:
    """The faults of one server, in the order in which they were added; all that match a request
    are injected, until one of them ends it."""

    def __init__(
        self,
        host: Host,
        requests: Requests,
        revision: Callable[[], int],
        check: Callable[[RequestFilter], None],
    ) -> None:
        self._host = host
        self._requests = requests
        self._revision = revision
        self._check = check
        self._faults: list[Fault] = []
        self._watches: dict[int, _OpenWatch] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults))

    def __len__(self) -> int:
        return len(self._faults)

    def add(
        self,
        *,
        verb: str | Sequence[str] = "",
        resource: str | Sequence[str] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        user_agent: str = "",
        status: int = 0,
        message: str = "",
        retry_after: int = 1,
        times: int | None = None,
        delay: Duration = 0,
        probability: float = 1,
        seed: int | None = None,
        after_write: bool = False,
        drop_connection: bool = False,
        drop_watch: bool = False,
        expire_watch: bool = False,
        stale_reads: bool = False,
        partition: bool = False,
    ) -> Fault:
        """Inject a fault into matching requests, until it is removed or used up. The texts that
        select requests are globs, as in Python's fnmatchcase, and match the whole value.

        verb        one, several separated by commas, or a list; "" means every verb, and so on
        resource    plural names as in RBAC: `pods`, `pods/status`, `deployments.apps`, `*`
        name        of the object, also of one that is created; not of one with generateName
        user        the user's name
        user_agent  the header User-Agent: `kubectl/*`
        status      the HTTP status to respond with: 400 to 599. The body is the Status that
                    kube-apiserver sends, `message` replaces its message, and `retry_after` is the
                    header of 429 and 503 in seconds
        times       after how many requests the fault is used up; None: never
        delay       real time to wait first: `250ms`, `2s` or seconds
        probability of each request, 0 to 1; `seed` makes the choice the same in each run
        after_write respond with the status, or drop the connection, after the handler has written
        drop_connection  close it without a response
        drop_watch  end watches cleanly, open ones at once and others when they open, as a server
                    that stops does; with drop_connection without the end of the stream
        expire_watch  end them with an ERROR event, 410 Expired, so that clients list again
        stale_reads get and list show the state in which the server was when the fault was added
        partition   requests get no answer and watches no events until the fault is removed; then
                    both go on

        Returns the fault, whose `injected` counts the requests. Raises ValueError.
        """
        names = {"namespace": namespace, "name": name, "user": user, "user_agent": user_agent}
        fault = Fault(
            filter=RequestFilter.of(verb=verb, resource=resource, **names),
            status=status,
            message=message,
            retry_after=retry_after,
            times=times,
            delay=parse_seconds(delay),
            probability=probability,
            after_write=after_write,
            drop_connection=drop_connection,
            drop_watch=drop_watch,
            expire_watch=expire_watch,
            stale_reads=stale_reads,
            partition=partition,
            rng=random.Random(seed),
        )
        self._check(fault.filter)
        return self._host.call(lambda: self._start(fault))

    def remove(self, number: int) -> None:
        """Remove the fault with that number. Raises KeyError if there is none."""
        for fault in self:
            if fault.number == number:
                fault.remove()
                return
        raise KeyError(f"there is no fault {number}")

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self:
            fault.remove()

    # On the server's loop.

    @property
    def _server(self) -> Server:
        return self._host.running.app.server

    def _start(self, fault: Fault) -> Fault:
        fault.revision = self._revision()
        if fault.stale_reads and not fault.revision:
            raise ValueError("stale_reads needs a running server whose store is in memory")
        if len(self._faults) >= MAX_FAULTS:
            self._faults = [fault for fault in self._faults if not fault.is_used_up]
        if len(self._faults) >= MAX_FAULTS:
            raise ValueError(f"there are {MAX_FAULTS} faults already")
        self._number += 1
        fault.number = self._number
        fault.on_remove = lambda fault: self._host.call(lambda: self._remove(fault))
        self._faults.append(fault)
        for watch in list(self._watches.values()):
            if fault.filter.matches_request(watch.request, watch.request.info.name):
                self._inject_into_watch(fault, watch)
        return fault

    def _remove(self, fault: Fault) -> None:
        if fault not in self._faults:
            return
        self._faults.remove(fault)
        fault.ended.set()
        if fault.partition:
            for watch in self._watches.values():
                if not self._is_partitioned(watch.request):
                    watch.sink.release()

    def _is_partitioned(self, request: Request) -> bool:
        return any(
            fault.partition and fault.filter.matches_request(request, request.info.name)
            for fault in self._faults
        )

    async def before(self, request: Request) -> AnyResponse | None:
        """Inject the faults that come before the handler."""
        if request.info.verb == "watch":
            open_sink = request.open_sink
            request.open_sink = lambda: HeldSink(open_sink())
        for fault in self:
            if fault.after_write or fault.ends_watches:
                continue
            name = await self._name(request)
            if not fault.filter.matches_request(request, name) or not fault.take():
                continue
            self._record(request, fault)
            if fault.partition:
                await fault.ended.wait()
            await self._delay_and_fail(request, fault, name)
            if fault.stale_reads:
                response = await stale_response(self._server, request, fault.revision)
                if response is not None:
                    return response
        return None

    async def after(self, request: Request, response: AnyResponse) -> None:
        """Inject the faults that come after the handler."""
        if isinstance(response, StreamResponse) and isinstance(response.sink, HeldSink):
            self._add_watch(request, response.sink)
        for fault in self:
            if fault.after_write:
                name = await self._name(request)
                if fault.filter.matches_request(request, name) and fault.take():
                    self._record(request, fault)
                    await self._delay_and_fail(request, fault, name)

    async def _delay_and_fail(self, request: Request, fault: Fault, name: str) -> None:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.drop_connection:
            raise DropConnection
        if fault.status:
            raise injected_error(
                request,
                fault.status,
                name=name,
                message=fault.message,
                retry_after=fault.retry_after,
            )

    async def _name(self, request: Request) -> str:
        """Return the name of the object that a request is about, or ""."""
        if request.info.verb != "create" or request.info.name or not self._faults:
            return request.info.name
        try:
            data = await request.read_body(self._server.config.body_limit)
            content_type, version = request.header("Content-Type"), request.info.version
            return name_in_body(decode_body(self._server.codecs, content_type, version, data))
        except Exception:  # the handler reports a bad body
            return ""

    def _record(self, request: Request, fault: Fault) -> None:
        record = self._requests.record_of(request)
        if record is not None:
            self._requests.record_fault(record, fault.number)

    # Watches.

    def _add_watch(self, request: Request, sink: HeldSink) -> None:
        server, target = self._server, request.target
        assert target is not None
        framer = watch_framer(server, request, negotiate_stream(server, request, target), target)
        watch = self._watches[id(request)] = _OpenWatch(request, sink, framer.error)
        request.on_complete(lambda request: self._forget_watch(request))
        for fault in self:
            if fault.filter.matches_request(request, request.info.name):
                self._inject_into_watch(fault, watch)

    def _forget_watch(self, request: Request) -> None:
        self._watches.pop(id(request), None)

    def _inject_into_watch(self, fault: Fault, watch: _OpenWatch) -> None:
        """End an open watch or hold its events back, if the fault does that."""
        if fault.partition:
            watch.sink.hold()
            self._record(watch.request, fault)
        elif fault.ends_watches and fault.take():
            self._record(watch.request, fault)
            if fault.delay:
                loop = asyncio.get_running_loop()
                loop.call_later(fault.delay, _end_watch, fault, watch)
            else:
                _end_watch(fault, watch)


def _end_watch(fault: Fault, watch: _OpenWatch) -> None:
    if fault.drop_connection:
        watch.sink.abort()
        return
    if fault.expire_watch:
        info = watch.request.info
        error = Expired(
            f"too old resource version: {watch.request.parameter('resourceVersion') or 0} "
            f"({fault.revision})",
            resource=info.resource,
            group=info.version.group,
        )
        watch.sink.write(watch.error_frame(error))
    watch.sink.close()
