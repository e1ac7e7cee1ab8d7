"""Injects a plan into a run: called around each request, before each step and when the operator is
quiet.

What lasts ends at its point `until`, or without one when the operator is quiet. What happens to
the operator's processes is the session's work, behind the protocol Director.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.exploring.history import NO_STATE, OPERATOR, WORKLOAD, ObjectRef, Request
from kapiserver.exploring.planning.plans import (
    MAX_OBSTRUCTED,
    ONCE,
    Injection,
    Plan,
    Point,
    parse_point,
    step_point,
)
from kapiserver.exploring.planning.refusals import READS, parse_refusal
from kapiserver.exploring.running.injecting.gates import Gates, Meeting, StaleView
from kapiserver.exploring.running.injecting.obstacles import OBSTACLES
from kapiserver.exploring.running.operators.instances import Instances
from kapiserver.exploring.running.tracer import Sender, Tracer
from kapiserver.testing.history.request_record import decode_body, name_in_body

AT_STEPS = (
    "crash-idle", "down", "stale", "delay", "miss", "overlap", "takeover", "advance", "age",
    "expire", "upgrade", "vary",
)  # fmt: skip
"""Actions that begin before a step."""


class Director(Protocol):
    """What an injector does to the objects, to the time and to the leader of the instances."""

    def take_over(self, instance: int) -> None:
        """Pause an instance until another one works in its place; return at once."""

    async def write_as_other(self, reference: ObjectRef) -> None:
        """Change an object as another writer does."""

    async def vary(self, text: str) -> None:
        """Make the change of a variation, and undo it."""

    async def jump(self, seconds: float) -> None:
        """Move the server's clock forward."""

    async def age(self) -> None:
        """Let an hour of the server's clock pass."""

    def expire_credentials(self) -> None:
        """Let the operator's credentials expire, and write new ones into its kubeconfigs."""

    async def obstruct(self, action: str, request: Request) -> None:
        """Make the server refuse writes that are like a request, in the way of an action."""

    async def clear_obstacles(self) -> None:
        """Let the server accept all writes again."""

    def expire_watches(self, resource: str) -> None:
        """End the operator's watches of a resource with 410 Expired."""


class Injector:
    """The injections of one run; an `apiserver.faults.Faults` inside of those of the server."""

    def __init__(
        self, tracer: Tracer, instances: Instances, director: Director, *, stale_reads: bool
    ) -> None:
        self._tracer = tracer
        self._instances = instances
        self._director = director
        self._stale_reads = stale_reads
        self.has_http_workload = False
        """Whether requests without the token of an instance are the workload's."""
        self.gates = Gates()
        self.begin(Plan(), lambda reference: reference)

    def begin(
        self,
        plan: Plan,
        normalise: Callable[[ObjectRef], ObjectRef],
        earlier: Sequence[Request] = (),
    ) -> None:
        """Inject another plan from now on; `normalise` makes names that all runs have, and
        `earlier` are the requests before the run begins."""
        self.gates = Gates()
        self._plan = plan
        self._normalise = normalise
        self._counts: Counter[Point] = Counter()
        self._points: dict[int, Point] = {}
        self._pending = list(plan.injections)
        self._lasting: list[Injection] = []
        self._steps = 0
        """Steps of a workload that comes by HTTP."""
        self._meeting: Meeting | None = None
        """Where two instances that overlap write together."""
        self._refusals: list[Injection] = []
        """The refusals that go on."""
        self._refused: Counter[Injection] = Counter()
        """How many requests each refusal and each obstacle has refused."""
        self._revisions: dict[Point, int] = {}
        """The revision of the store at each point at which a stale view may begin."""
        for request in earlier:
            if request.instance and _is_point(request):
                self._count(request)

    @property
    def pending(self) -> tuple[Injection, ...]:
        """The injections whose points have not come."""
        return tuple(self._pending)

    @property
    def has_disturbed(self) -> bool:
        """Whether the plan has done something, and nothing of it lasts."""
        return len(self._pending) < len(self._plan.injections) and not self._lasting

    # Points.

    def _count(self, request: Request) -> Point:
        """Return the point of a write."""
        target = self._normalise(request.object)
        kind = Point(request.verb, target, request.subresource, 0)
        self._counts[kind] += 1
        return Point(request.verb, target, request.subresource, self._counts[kind])

    def _take(self, point: Point, *actions: str) -> list[Injection]:
        """Return the injections of these actions that a point triggers, once each."""
        triggered = [
            injection
            for injection in self._pending
            if injection.point == point and injection.action in actions
        ]
        for injection in triggered:
            self._pending.remove(injection)
            self._tracer.mark(f"{injection}")
        return triggered

    async def before_step(self, index: int) -> None:
        """Inject what is due before a step; `index` is the number of steps at the end."""
        point = step_point(index)
        self._revisions[point] = self._tracer.revision
        for injection in self._lasting[:]:
            if injection.until == point or injection.action in OBSTACLES:
                await self._end(injection)
        for injection in self._take(point, *AT_STEPS):
            await self._begin(injection)

    async def _begin(self, injection: Injection) -> None:
        """Begin what happens before a step."""
        director, instances = self._director, self._instances
        match injection.action:
            case "crash-idle":
                await instances.crash_all()
                instances.restart()
            case "down":
                await instances.crash_all()
                self._lasting.append(injection)
            case "stale":
                await instances.crash_all()
                revision = self._revisions.get(parse_point(injection.argument), 0)
                instance = instances.restart()
                if revision:
                    self.gates.show(StaleView(revision, instance, self._stale_reads))
                self._lasting.append(injection)
            case "delay" | "miss":
                self.gates.hold(injection.argument)
                self._lasting.append(injection)
            case "overlap":
                await instances.launch(instances.new_number())
                self._meeting = Meeting()
                self._lasting.append(injection)
            case "takeover":
                director.take_over(instances.kubeconfigs.oldest)
            case "advance":
                await director.jump(float(injection.argument))
            case "age":
                await director.age()
            case "expire":
                director.expire_credentials()
            case "vary":
                await director.vary(injection.argument)
            case "upgrade":
                await instances.upgrade()

    async def on_quiet(self, *, is_blocked: bool = False) -> bool:
        """End what lasts until the operator has settled; report whether something has ended.
        If the run is blocked, because a step waits for the operator, end everything that lasts."""
        ending = [item for item in self._lasting if is_blocked or item.until is None]
        for injection in ending:
            await self._end(injection)
        return bool(ending)

    async def _end(self, injection: Injection) -> None:
        if injection not in self._lasting:
            return  # the response to a second refused write comes after that to the first one
        self._lasting.remove(injection)
        self._tracer.mark(f"the end of: {injection}")
        match injection.action:
            case "down":
                self._instances.restart()
            case "stale":
                self.gates.show(None)
            case "delay":
                self.gates.release(injection.argument)
            case "miss":
                self.gates.discard(injection.argument)
                self._director.expire_watches(injection.argument)
            case "overlap":
                self._meeting = None
                await self._instances.stop_older()
            case action if action in OBSTACLES:
                await self._director.clear_obstacles()

    # Around requests.

    async def before(self, http: HttpRequest) -> AnyResponse | None:
        """Record a request, and inject what comes before its handler."""
        kubeconfigs = self._instances.kubeconfigs
        instance = kubeconfigs.number_of(http)
        if not instance and self.has_http_workload:
            await self._before_workload(http)
        elif not instance:
            # The operator may use other tokens, such as those of TokenRequests.
            instance = kubeconfigs.newest
        if instance in self._instances.dead:
            raise DropConnection
        name, body = http.info.name, b""
        if http.method != "GET":
            body = await http.read_body(self._tracer.server.config.limits.body_limit)
        if http.info.verb == "create" and not name:
            name = self._name(http, body)
        actor = OPERATOR if instance else WORKLOAD
        request = self._tracer.open_request(http, Sender(actor, instance), name, body)
        http.on_complete(lambda http: self._tracer.close_request(http, _status(http)))
        if not instance:
            return None
        if kubeconfigs.has_expired(http):
            request.injected = "expire"
            raise Unauthorized
        if _is_point(request):
            point = self._points[request.position] = self._count(request)
            if point.is_write:
                self._revisions[point] = self._tracer.revision
                await self._before_write(point, request)
                self._note_obstacles(request, http)
            self._refuse(point, request, http)
        return await self.gates.before(self._tracer.server, http, instance, request.object.resource)

    async def _before_workload(self, http: HttpRequest) -> None:
        """Take a write of the workload for a step."""
        if http.method != "GET" and self._instances.kubeconfigs.newest:
            index, self._steps = self._steps, self._steps + 1
            await self.before_step(index)
            self._tracer.mark(f"{http.method} {http.path}", index)

    async def end_workload(self) -> None:
        """Inject what is due at the end of a workload that comes by HTTP."""
        await self.before_step(self._steps)

    def _name(self, http: HttpRequest, body: bytes) -> str:
        """Return the name in the body of a create, "" if there is none."""
        try:
            content_type = http.header("Content-Type")
            codecs = self._tracer.server.codecs
            return name_in_body(decode_body(codecs, content_type, http.info.version, body))
        except Exception:  # the handler reports a bad body
            return ""

    async def _before_write(self, point: Point, request: Request) -> None:
        director = self._director
        if self._meeting is not None:
            await self._meeting.meet(request.instance)
        for injection in self._take(point, "crash-before"):
            await self._crash(injection, request)
        for injection in self._take(point, "delay", "miss", "takeover"):
            if injection.action == "takeover":
                director.take_over(request.instance)
            else:
                await self._begin(injection)
        for injection in self._take(point, "conflict"):
            await director.write_as_other(request.object)
            request.injected = injection.action
        for injection in self._take(point, *OBSTACLES):
            await director.obstruct(injection.action, request)
            self._lasting.append(injection)

    def _refuse(self, point: Point, request: Request, http: HttpRequest) -> None:
        """Refuse a request, if a refusal begins or goes on. Raises the error of the response."""
        self._refusals += self._take(point, "refuse")
        for injection in self._refusals[:]:
            repeated = parse_refusal(injection.argument)
            is_same_kind = injection.point.is_write == point.is_write
            if not is_same_kind or point.verb not in repeated.refusal.verbs:
                continue
            self._refused[injection] += 1
            if self._refused[injection] >= repeated.times:
                self._refusals.remove(injection)
            request.injected = injection.action
            raise repeated.refusal.error(http, request.object.name)

    def _note_obstacles(self, request: Request, http: HttpRequest) -> None:
        """Mark a write that meets an obstacle; remove an obstacle that has refused enough."""
        for injection in self._lasting:
            if injection.action not in OBSTACLES:
                continue
            kind = (injection.point.object.resource, injection.point.subresource)
            if kind == (request.object.resource, request.subresource):
                request.injected = injection.action
                self._refused[injection] += 1
                if injection.argument == ONCE or self._refused[injection] == MAX_OBSTRUCTED:
                    http.on_complete(partial(self._end_soon, injection))

    def _end_soon(self, injection: Injection, _: HttpRequest) -> None:
        """End an injection after a response."""
        self._instances.begin_soon(self._end(injection))

    async def after(self, http: HttpRequest, response: AnyResponse) -> None:
        """Inject what comes after the handler, when a write is stored."""
        if http.info.verb == "watch" and isinstance(response, StreamResponse):
            self._tracer.begin_watch(http)
        request = self._tracer.request_of(http)
        if request is None:
            return
        request.status = response.status
        point = self._points.pop(request.position, None)
        if request.instance in self._instances.dead:
            raise DropConnection
        if point is None:
            return
        for injection in self._take(point, "crash-commit"):
            await self._crash(injection, request)
        for injection in self._take(point, "lose-response"):
            request.injected = injection.action
            raise DropConnection

    async def _crash(self, injection: Injection, request: Request) -> None:
        """Kill the instance that sent a request, start another one, and drop the request."""
        request.injected = injection.action
        await self._instances.crash(request.instance)
        self._instances.restart()
        raise DropConnection


def _is_point(request: Request) -> bool:
    """Whether plans may do something at a request."""
    return request.object.resource not in NO_STATE and (request.is_write or request.verb in READS)


def _status(http: HttpRequest) -> int:
    return http.outcome.status if http.outcome is not None else 0
