"""What makes a server refuse the writes of an operator: a webhook that cannot be called, or a quota
without room. They are objects, so the server's own admission refuses, as long as they are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.exploring.history import ObjectRef, Request
from kapiserver.exploring.running.tracer import Tracer
from kapiserver.exploring.running.writes import Writes
from kapiserver.testing.server import TestServer

NAME = "explore"
WEBHOOK_NAME = "explore.kapiserver.dev"
WEBHOOKS = ObjectRef("validatingwebhookconfigurations.admissionregistration.k8s.io", "", NAME)
CLOSED_PORT = "https://127.0.0.1:9/"
"""Where nothing listens: connections are refused."""


class Obstacles:
    """The obstacles of one run."""

    def __init__(self, server: TestServer, tracer: Tracer, writes: Writes) -> None:
        self._server = server
        self._tracer = tracer
        self._writes = writes
        self._present: list[ObjectRef] = []

    async def put(self, kind: str, request: Request, user: str) -> None:
        """Let the server refuse the writes of a user that are like a request. `kind` is one of
        OBSTACLES. Return when it does. Raises StatusError."""
        reference, obj = OBSTACLES[kind](request, user)
        self._present.append(reference)
        await self._write(reference, obj)
        await self._server.settle_async()

    async def clear(self) -> None:
        """Remove all obstacles."""
        while self._present:
            reference = self._present.pop()
            with contextlib.suppress(StatusError):  # the namespace may be gone
                await self._write(reference, None)

    async def _write(self, reference: ObjectRef, obj: Tree | None) -> None:
        client = self._writes.client(reference)
        self._tracer.other_objects.add(reference)
        try:
            await (client.delete(reference.name) if obj is None else client.create(obj))
        finally:
            self._tracer.other_objects.discard(reference)


def _webhook(request: Request, user: str) -> tuple[ObjectRef, Tree]:
    resource, _, group = request.object.resource.partition(".")
    if request.subresource:
        resource = f"{resource}/{request.subresource}"
    is_user = f"request.userInfo.username == {user!r}"
    webhook = {
        "name": WEBHOOK_NAME,
        "clientConfig": {"url": CLOSED_PORT},
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": ["*"],
                "resources": [resource],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }
        ],
        "matchConditions": [{"name": "user", "expression": is_user}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return WEBHOOKS, {"metadata": {"name": NAME}, "webhooks": [webhook]}


def _quota(request: Request, user: str) -> tuple[ObjectRef, Tree]:  # noqa: ARG001 - an obstacle
    hard = {f"count/{request.object.resource}": "0"}
    reference = ObjectRef("resourcequotas", request.object.namespace, NAME)
    return reference, {"metadata": {"name": NAME}, "spec": {"hard": hard}}


Obstacle: TypeAlias = Callable[[Request, str], tuple[ObjectRef, Tree]]
OBSTACLES: Mapping[str, Obstacle] = {"webhook": _webhook, "quota": _quota}
"""Functions that return an obstacle for a request of a user, by their actions."""
