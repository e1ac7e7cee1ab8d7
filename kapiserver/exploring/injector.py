"""Injects a plan into a run: called around each request, after each commit and before each step.

A point may trigger several injections. What happens to the operator (kill, start, pause) is the
session's work, behind the protocol Director.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.exploring.history import LEASES, ObjectRef, Request
from kapiserver.exploring.plans import Injection, Plan, Point, step_point
from kapiserver.exploring.tracer import Tracer
from kapiserver.testing.history.request_record import decode_body, name_in_body


class Director(Protocol):
    """What an injector does to the operator's instances."""

    async def crash(self, instance: int) -> None:
        """Kill an instance; return when it has ended."""

    def restart(self) -> None:
        """Start an instance soon."""

    async def crash_all(self) -> None:
        """Kill all instances; return when they have ended."""


class Injector:
    """The injections of one run, an `apiserver.faults.Faults` behind those of the server."""

    def __init__(self, tracer: Tracer, director: Director, body_limit: int) -> None:
        self._tracer = tracer
        self._director = director
        self._body_limit = body_limit
        self.instances: dict[str, int] = {}
        """The numbers of the operator's instances, by their Authorization header."""
        self.dead: set[int] = set()
        """Instances that were killed: their requests get no response."""
        self.begin(Plan(), lambda reference: reference)

    def begin(self, plan: Plan, normalise: Callable[[ObjectRef], ObjectRef]) -> None:
        """Inject another plan from now on; `normalise` makes names that all runs have."""
        self.instances.clear()
        self.dead.clear()
        self._plan = plan
        self._normalise = normalise
        self._counts: Counter[Point] = Counter()
        self._points: dict[int, Point] = {}
        self._due: dict[Point, list[Injection]] = {}
        self._pending = set(plan.injections)
        for injection in plan.injections:
            self._due.setdefault(injection.point, []).append(injection)

    @property
    def pending(self) -> frozenset[Injection]:
        """The injections whose points have not come."""
        return frozenset(self._pending)

    # Points.

    def _count(self, verb: str, reference: ObjectRef, subresource: str) -> Point:
        """Return the point of what happens now."""
        kind = Point(verb, self._normalise(reference), subresource, 0)
        self._counts[kind] += 1
        return Point(verb, kind.object, subresource, self._counts[kind])

    def _take(self, point: Point, *actions: str) -> list[Injection]:
        """Return the injections of these actions that a point triggers, once."""
        triggered = [
            injection
            for injection in self._due.get(point, ())
            if injection.action in actions and injection in self._pending
        ]
        self._pending.difference_update(triggered)
        for injection in triggered:
            self._tracer.mark(f"it {injection}")
        return triggered

    async def before_step(self, index: int) -> None:
        """Inject what is due before a step; `index` is the number of steps at the end."""
        point = step_point(index)
        for injection in self._plan.injections:
            if injection.until == point and injection.action == "down":
                self._director.restart()
        for injection in self._take(point, "crash-idle", "down"):
            await self._director.crash_all()
            if injection.action == "crash-idle":
                self._director.restart()

    # Around requests.

    async def before(self, http: HttpRequest) -> AnyResponse | None:
        """Record a request, and inject what comes before its handler."""
        instance = self.instances.get(http.header("Authorization"), 0)
        if instance in self.dead:
            raise DropConnection
        name, body = http.info.name, b""
        if http.method in ("POST", "PUT", "PATCH", "DELETE"):
            body = await http.read_body(self._body_limit)
        if http.info.verb == "create" and not name:
            name = self._name(http, body)
        request = self._tracer.open_request(http, instance, name, body)
        http.on_complete(lambda http: self._tracer.close_request(http, _status(http)))
        if instance and request.is_write and request.object.resource != LEASES:
            point = self._count(request.verb, request.object, request.subresource)
            self._points[request.position] = point
            await self._before_write(point, request)
        return None

    def _name(self, http: HttpRequest, body: bytes) -> str:
        """Return the name in the body of a create, "" if there is none."""
        try:
            content_type = http.header("Content-Type")
            codecs = self._tracer.server.codecs
            return name_in_body(decode_body(codecs, content_type, http.info.version, body))
        except Exception:  # the handler reports a bad body
            return ""

    async def _before_write(self, point: Point, request: Request) -> None:
        for injection in self._take(point, "crash-before"):
            request.injected = injection.action
            await self._crash(request)

    async def after(self, http: HttpRequest, response: AnyResponse) -> None:
        """Inject what comes after the handler, when a write is stored."""
        request = self._tracer.request_of(http)
        if request is None or isinstance(response, StreamResponse):
            return
        request.status = response.status
        point = self._points.pop(request.position, None)
        if request.instance in self.dead:
            raise DropConnection
        if point is not None:
            await self._after_write(point, request)

    async def _after_write(self, point: Point, request: Request) -> None:
        for injection in self._take(point, "crash-commit"):
            request.injected = injection.action
            await self._crash(request)

    async def _crash(self, request: Request) -> None:
        """Kill the instance that sent a request, start another one, and drop the request."""
        await self._director.crash(request.instance)
        self._director.restart()
        raise DropConnection


def _status(http: HttpRequest) -> int:
    return http.outcome.status if http.outcome is not None else 0
