"""Creates and deletes the pods of an owner, and records events about it.

Pods are created in batches whose size doubles with each success, so that an owner whose pods are
all refused, by a quota for example, does not send a request for each of them.

Mirrors RealPodControl of pkg/controller/controller_utils.go, and slowStartBatch of
pkg/controller/replicaset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kapiserver.api.accessors import (
    annotations_of,
    copy_tree,
    finalizers_of,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.workloads.claims import controller_reference
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Informer

FIRST_BATCH = 1
_MAX_POD_NAME = 253
_NAMESPACE_TERMINATING = "NamespaceTerminating"


def pod_from_template(template: Tree, owner: Tree) -> Tree:
    """Return a pod of `owner` with the labels, annotations, finalizers and spec of a template, and
    a name to be generated from that of the owner."""
    prefix = f"{name_of(owner)}-"
    metadata: Tree = {
        "generateName": prefix if len(prefix) <= _MAX_POD_NAME else name_of(owner),
        "namespace": namespace_of(owner),
        "ownerReferences": [
            controller_reference(owner, owner.get("apiVersion") or "", owner.get("kind") or "")
        ],
    }
    parts = {
        "labels": labels_of(template),
        "annotations": annotations_of(template),
        "finalizers": finalizers_of(template),
    }
    metadata |= {name: part for name, part in parts.items() if part}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": copy_tree(metadata),
        "spec": copy_tree(value_at(template, "spec") or {}),
    }


class PodControl:
    """Creates and deletes pods with the client of one controller."""

    def __init__(self, context: ControllerContext, pods: Informer, events: EventRecorder) -> None:
        self._context = context
        self._informer = pods
        self._events = events

    def pods(self, namespace: str) -> ResourceClient:
        """Return the controller's client of the pods of a namespace."""
        return self._context.resource("v1", "pods", namespace=namespace)

    async def create_all(self, owner: Tree, pods: Sequence[Tree]) -> tuple[int, str]:
        """Create pods, and wait until the informer shows them. Return how many were created, and
        the message of the first error, after which no further batch is sent, or ""."""
        size, done, created, newest, error = FIRST_BATCH, 0, 0, 0, ""
        while done < len(pods) and not error:
            batch = pods[done : done + size]
            results = await asyncio.gather(*(self._create(owner, pod) for pod in batch))
            error = next((message for _, message in results if message), "")
            newest = max(newest, *(revision for revision, _ in results))
            created += sum(revision > 0 for revision, _ in results)
            done, size = done + len(batch), size * 2
        if newest:
            await self._informer.wait_for(Revision(newest))
        return created, error

    async def _create(self, owner: Tree, pod: Tree) -> tuple[int, str]:
        """Return the revision of the created pod, or 0, and an error message, or ""."""
        try:
            created = await self.pods(namespace_of(owner)).create(pod)
        except StatusError as error:
            if has_cause(error, _NAMESPACE_TERMINATING):
                return 0, ""
            await self._events.warn(owner, "FailedCreate", f"Error creating: {error}")
            return 0, str(error)
        await self._events.note(owner, "SuccessfulCreate", f"Created pod: {name_of(created)}")
        return int(resource_version_of(created)), ""

    async def delete_all(self, owner: Tree, pods: Sequence[Tree]) -> str:
        """Delete pods, and wait until the informer shows their deletion. Return the message of the
        first error, or ""."""
        results = await asyncio.gather(*(self._delete(owner, pod) for pod in pods))
        await self._informer.fresh()
        return next((message for message in results if message), "")

    async def _delete(self, owner: Tree, pod: Tree) -> str:
        name, options = name_of(pod), {"preconditions": {"uid": uid_of(pod)}}
        try:
            await self.pods(namespace_of(owner)).delete(name, options)
        except StatusError as error:
            if error.reason in ("NotFound", "Conflict"):
                return ""
            await self._events.warn(owner, "FailedDelete", f"Error deleting: {error}")
            return f"unable to delete pods: {error}"
        await self._events.note(owner, "SuccessfulDelete", f"Deleted pod: {name}")
        return ""


def has_cause(error: StatusError, reason: str) -> bool:
    """Report whether the details of an error have a cause with a reason."""
    causes: Sequence[Any] = value_at(error.status, "details", "causes") or ()
    return any(cause.get("reason") == reason for cause in causes)


class PodError(Exception):
    """Some pods could not be created or deleted; their owner is retried later."""
