"""Faults that a test injects into requests: errors, delays, dropped connections and watches, stale
reads, partitions.

A fault stands between authorization and the handler (`apiserver/filters/faults.py`), so it knows
the user. It changes requests over HTTP only, not those of the server's own controllers. Delays are
in real time, because clients count their time-outs in it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

from msgspec import to_builtins
from msgspec.structs import asdict

from kapiserver.apiserver.endpoints.handlers.watch import watch_framer
from kapiserver.apiserver.endpoints.negotiation import negotiate_list
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.faults import Faults as Interceptor
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.storage.errors import Expired
from kapiserver.testing.durations import Duration, parse_seconds
from kapiserver.testing.faults.effects import (
    Delay,
    Drop,
    Effect,
    EndWatches,
    ExpireWatches,
    Partition,
    ReadStale,
    Respond,
    WatchEnd,
)
from kapiserver.testing.faults.held_sink import HeldSink
from kapiserver.testing.faults.injected_errors import injected_error
from kapiserver.testing.faults.stale_reads import stale_response
from kapiserver.testing.history.request_filter import RequestFilter, Selection
from kapiserver.testing.history.request_record import decode_body, name_in_body
from kapiserver.testing.history.requests import Requests
from kapiserver.testing.subject import ServerLoop, Subject

MAX_FAULTS = 1000


class Matching(Selection, total=False):
    """The keyword arguments that say which requests a fault affects; `Faults` explains them."""

    times: int | None
    probability: float
    seed: int | None


@dataclass(kw_only=True, eq=False)
class Fault:
    """One fault; a method of `Faults` adds it. As a context manager it removes itself at the end of
    the block."""

    filter: RequestFilter
    effect: Effect
    times: int | None = None
    probability: float = 1
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
        """Return the fault as JSON: its number, its effect and the members of that, what it
        matches, and what it has done."""
        return {
            "number": self.number,
            **to_builtins(self.effect),
            **asdict(self.filter),
            "times": self.times,
            "probability": self.probability,
            "injected": self.injected,
        }

    @property
    def is_used_up(self) -> bool:
        """Whether it affects no more requests, not even those that wait for the end of a
        partition."""
        has_affected_all = self.times is not None and self.injected >= self.times
        return has_affected_all and not isinstance(self.effect, Partition)

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


class Faults(Subject):
    """The faults of one server, in the order in which they were added; all that match a request
    are injected, until one of them ends it.

    Each effect has a method. It injects the effect into the requests that match all of its keyword
    arguments `requests`, which the fields of this list name, until the fault is removed or used up.
    It returns the fault, whose `injected` counts the requests, and raises ValueError for an
    argument that makes no sense. Texts are globs as in Python's fnmatchcase, and match the whole
    value.

    verb         a verb, several separated by commas, or a list; "" means every verb, and so on
    resource     plural names as in RBAC: `pods`, `pods/status`, `deployments.apps`, `*`
    namespace    the namespace of the object
    name         the name of the object, also of one that is created; not of one with generateName
    user         the user's name
    user_agent   the header User-Agent: `kubectl/*`
    times        after how many requests the fault is used up; None: never
    probability  the probability for each request, 0 to 1
    seed         makes the random choice of requests the same in each run
    """

    def __init__(
        self,
        loop: ServerLoop,
        requests: Requests,
        revision: Callable[[], int],
    ) -> None:
        super().__init__(loop)
        self._requests = requests
        self._revision = revision
        self._faults: list[Fault] = []
        self._watches: dict[int, _OpenWatch] = {}
        self._number = 0
        self.interceptor: Interceptor | None = None
        """Called around each request, inside of all faults; for a program that decides for each
        request what goes wrong."""

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults))

    def __len__(self) -> int:
        return len(self._faults)

    def respond(
        self,
        status: int,
        *,
        message: str = "",
        retry_after: int = 1,
        after_write: bool = False,
        **requests: Unpack[Matching],
    ) -> Fault:
        """Respond to matching requests with an error: the Status that kube-apiserver sends.

        status       400 to 599
        message      replaces the message of the Status
        retry_after  the header of 429 and 503, in seconds
        after_write  respond after the handler has written
        """
        effect = Respond(
            status=status, message=message, retry_after=retry_after, after_write=after_write
        )
        return self._add(effect, requests)

    def delay(
        self, duration: Duration, *, after_write: bool = False, **requests: Unpack[Matching]
    ) -> Fault:
        """Let matching requests wait, in real time: `250ms`, `2s` or seconds. With `after_write`
        the response waits, after the handler has written. Faults that were added later have their
        effect after the delay."""
        effect = Delay(seconds=parse_seconds(duration), after_write=after_write)
        return self._add(effect, requests)

    def drop(self, *, after_write: bool = False, **requests: Unpack[Matching]) -> Fault:
        """Close the connections of matching requests without a response; with `after_write` after
        the handler has written."""
        return self._add(Drop(after_write=after_write), requests)

    def partition(self, **requests: Unpack[Matching]) -> Fault:
        """Give matching requests no answer and matching watches no events until the fault is
        removed; then both go on."""
        return self._add(Partition(), requests)

    def read_stale(self, **requests: Unpack[Matching]) -> Fault:
        """Let get and list show the state in which the server was when the fault was added. Raises
        ValueError if the server's store is not in memory."""
        return self._add(ReadStale(), requests)

    def end_watches(
        self, *, after: Duration = 0, abort: bool = False, **requests: Unpack[Matching]
    ) -> Fault:
        """End matching watches as a server that stops does: open ones at once, others when they
        open; both wait for the real time `after`. With `abort` the stream breaks off."""
        effect = EndWatches(seconds=parse_seconds(after), abort=abort)
        return self._add(effect, requests)

    def expire_watches(self, *, after: Duration = 0, **requests: Unpack[Matching]) -> Fault:
        """End matching watches as `end_watches` does, with the event ERROR, 410 Expired, so that
        clients list again."""
        return self._add(ExpireWatches(seconds=parse_seconds(after)), requests)

    def _add(self, effect: Effect, requests: Matching) -> Fault:
        times, probability = requests.pop("times", None), requests.pop("probability", 1)
        rng = random.Random(requests.pop("seed", None))
        fault = Fault(
            filter=RequestFilter.of(**cast(Selection, requests)),  # what is left of them
            effect=effect,
            times=times,
            probability=probability,
            rng=rng,
        )
        self._requests.check(fault.filter)
        return self._server_loop.call(lambda: self._start(fault))

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

    def _start(self, fault: Fault) -> Fault:
        fault.revision = self._revision()
        if isinstance(fault.effect, ReadStale) and not fault.revision:
            raise ValueError("read_stale needs a running server whose store is in memory")
        if len(self._faults) >= MAX_FAULTS:
            self._faults = [fault for fault in self._faults if not fault.is_used_up]
        if len(self._faults) >= MAX_FAULTS:
            raise ValueError(f"there are {MAX_FAULTS} faults already")
        self._number += 1
        fault.number = self._number
        fault.on_remove = lambda fault: self._server_loop.call(lambda: self._remove(fault))
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
        if isinstance(fault.effect, Partition):
            for watch in self._watches.values():
                if not self._is_partitioned(watch.request):
                    watch.sink.release()

    def _is_partitioned(self, request: Request) -> bool:
        return any(
            isinstance(fault.effect, Partition)
            and fault.filter.matches_request(request, request.info.name)
            for fault in self._faults
        )

    async def before(self, request: Request) -> AnyResponse | None:
        """Inject the faults that come before the handler."""
        if request.info.verb == "watch":
            open_sink = request.open_sink
            request.open_sink = lambda: HeldSink(open_sink())
        for fault in self:
            if not isinstance(fault.effect, WatchEnd) and not _is_after_write(fault.effect):
                response = await self._inject(request, fault)
                if response is not None:
                    return response
        return None if self.interceptor is None else await self.interceptor.before(request)

    async def after(self, request: Request, response: AnyResponse) -> None:
        """Inject the faults that come after the handler."""
        if isinstance(response, StreamResponse) and isinstance(response.sink, HeldSink):
            self._add_watch(request, response.sink)
        if self.interceptor is not None:
            await self.interceptor.after(request, response)
        for fault in self:
            if _is_after_write(fault.effect):
                await self._inject(request, fault)

    async def _inject(self, request: Request, fault: Fault) -> AnyResponse | None:
        """Inject a fault into a request that matches. Return a stale response, if there is one."""
        name = await self._name(request)
        if not fault.filter.matches_request(request, name) or not fault.take():
            return None
        self._record(request, fault)
        match fault.effect:
            case Respond() as error:
                raise injected_error(
                    request,
                    error.status,
                    name=name,
                    message=error.message,
                    retry_after=error.retry_after,
                )
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Drop():
                raise DropConnection
            case Partition():
                await fault.ended.wait()
            case ReadStale():
                return await stale_response(self._server, request, fault.revision)
        return None

    async def _name(self, request: Request) -> str:
        """Return the name of the object that a request is about, or ""."""
        if request.info.verb != "create" or request.info.name or not self._faults:
            return request.info.name
        try:
            data = await request.read_body(self._server.config.limits.body_limit)
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
        framer = watch_framer(server, request, negotiate_list(server, request, target), target)
        watch = self._watches[id(request)] = _OpenWatch(request, sink, framer.error)
        request.on_complete(lambda request: self._forget_watch(request))
        for fault in self:
            if fault.filter.matches_request(request, request.info.name):
                self._inject_into_watch(fault, watch)

    def _forget_watch(self, request: Request) -> None:
        self._watches.pop(id(request), None)

    def _inject_into_watch(self, fault: Fault, watch: _OpenWatch) -> None:
        """End an open watch or hold its events back, if the fault does that."""
        if isinstance(fault.effect, Partition):
            watch.sink.hold()
            self._record(watch.request, fault)
        elif isinstance(fault.effect, WatchEnd) and fault.take():
            self._record(watch.request, fault)
            if fault.effect.seconds:
                loop = asyncio.get_running_loop()
                loop.call_later(
                    fault.effect.seconds, _end_watch, fault.effect, watch, fault.revision
                )
            else:
                _end_watch(fault.effect, watch, fault.revision)


def _is_after_write(effect: Effect) -> bool:
    return isinstance(effect, Respond | Delay | Drop) and effect.after_write


def _end_watch(effect: WatchEnd, watch: _OpenWatch, revision: int) -> None:
    if isinstance(effect, EndWatches) and effect.abort:
        watch.sink.abort()
        return
    if isinstance(effect, ExpireWatches):
        info = watch.request.info
        error = Expired(
            f"too old resource version: {watch.request.parameter('resourceVersion') or 0} "
            f"({revision})",
            resource=info.resource,
            group=info.version.group,
        )
        watch.sink.write(watch.error_frame(error))
    watch.sink.close()
