"""A server with priority and fairness whose requests execute until a test ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.filters.flow_control import apply_flow_control
from kapiserver.apiserver.filters.headers import add_headers
from kapiserver.apiserver.filters.recovery import respond_to_errors
from kapiserver.apiserver.flowcontrol.bootstrap import FLOWCONTROL
from kapiserver.apiserver.flowcontrol.flow_control import FlowControl
from kapiserver.apiserver.request import Outcome, Request, parse_target
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import AnyResponse, text_response
from kapiserver.apiserver.user import AUTHENTICATED, User
from kapiserver.cluster import open_cluster
from tests.clock import ManualClock

ALL = ["*"]
EVERYWHERE = {
    "verbs": ALL, "apiGroups": ALL, "resources": ALL, "namespaces": ALL, "clusterScope": True,
}  # fmt: skip


def schema_object(
    name: str, precedence: int, subject: dict[str, Any], *, level: str = "level", **rule: Any
) -> dict[str, Any]:
    rules = [{"subjects": [subject], **{key: [value] for key, value in rule.items()}}]
    return {
        "kind": "FlowSchema",
        "apiVersion": str(FLOWCONTROL),
        "metadata": {"name": name, "uid": name},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": rules,
        },
    }


def level_object(name: str = "level", shares: int = 30, **limited: Any) -> dict[str, Any]:
    queuing = {"queues": 8, "handSize": 2, "queueLengthLimit": 2}
    return {
        "kind": "PriorityLevelConfiguration",
        "apiVersion": str(FLOWCONTROL),
        "metadata": {"name": name, "uid": f"level-{name}"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                "limitResponse": {"type": "Queue", "queuing": queuing},
                **limited,
            },
        },
    }


def user_subject(name: str) -> dict[str, Any]:
    return {"kind": "User", "user": {"name": name}}


def group_subject(name: str) -> dict[str, Any]:
    return {"kind": "Group", "group": {"name": name}}


def person(name: str, *groups: str) -> User:
    return User(name=name, groups=groups)


JANE, JOE = person("jane", AUTHENTICATED), person("joe", AUTHENTICATED)


async def _no_body(_limit: int) -> bytes:
    return b""


def request_of(user: User, target: str = "/api/v1/nodes/a", method: str = "GET") -> Request:
    parsed = parse_target(target)
    return Request(
        method=method,
        path=parsed.path,
        query=parsed.query,
        headers={},
        info=parse_request_info(method, parsed.path, parsed.query),
        read_body=_no_body,
        user=user,
    )


class Crowd:
    """A server with priority and fairness, whose requests execute until they are told to end."""

    def __init__(self, server: Server, flow_control: FlowControl, clock: ManualClock) -> None:
        self.server = replace(server, flow_control=flow_control)
        self.flow_control = flow_control
        self.clock = clock
        self.ends: dict[Request, asyncio.Event] = {}
        handle: Handler = self._handle
        for wrap in (apply_flow_control, respond_to_errors, add_headers):
            handle = wrap(self.server, handle)
        self._chain = handle

    async def _handle(self, request: Request) -> AnyResponse:
        self.ends[request] = asyncio.Event()
        await self.ends[request].wait()
        return text_response("")

    async def send(self, request: Request) -> AnyResponse:
        """Return the response to a request, which is complete then."""
        try:
            return await self._chain(request)
        finally:
            request.complete(Outcome(status=200, bytes_sent=0, finished=True))

    async def begin(self, *requests: Request) -> list[asyncio.Task[AnyResponse]]:
        """Send requests, and return when each executes, waits or has failed."""
        tasks = [asyncio.create_task(self.send(request)) for request in requests]
        await settle()
        return tasks

    async def end(self, request: Request) -> None:
        """Let a request end."""
        self.ends.pop(request).set()
        await settle()

    async def put(self, resource: str, *trees: dict[str, Any]) -> None:
        """Create objects, and return when they are in force."""
        store = self.server.stores.by_name(FLOWCONTROL, resource)
        for tree in trees:
            await store.create({**tree, "metadata": dict(tree["metadata"])})
        await store.wait_delivered()
        await settle()

    def executing(self, *requests: Request) -> list[bool]:
        """Return which requests execute."""
        return [request in self.ends for request in requests]


async def settle() -> None:
    """Let tasks run that are ready, and those that they wake."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def open_crowd(*, seats: int = 600, request_timeout: float = 60.0) -> AsyncIterator[Crowd]:
    config = Config.of(request_timeout=request_timeout)
    async with open_cluster(config) as cluster:
        server, clock = cluster.server, ManualClock(100.0)
        flow_control = FlowControl(
            server.stores, server.metrics.in_flight, seats=seats, clock=clock
        )
        flow_control.start()
        for subscription in flow_control._subscriptions:
            await subscription.wait_synced()
        yield Crowd(server, flow_control, clock)
        flow_control.stop()
