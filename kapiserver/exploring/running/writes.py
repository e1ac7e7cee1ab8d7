"""Writes of a workload and of another writer, without HTTP; the tracer learns whose they are."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from typing import Any

from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.exploring.history import OTHER_ANNOTATION, ObjectRef
from kapiserver.exploring.running.tracer import Tracer
from kapiserver.exploring.steps import Apply, Delete, Patch, Scale, Step, Target
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.kinds import find_resource

MANAGER = "workload"
"""The field manager of the steps `apply`."""


class Writes:
    """Writes the objects of one server as an administrator."""

    def __init__(self, server: TestServer, tracer: Tracer) -> None:
        self._server = server
        self._tracer = tracer

    async def perform(self, step: Step) -> None:
        """Do what a step writes; nothing for others. Raises StatusError, and ValueError for an
        unknown kind."""
        match step:
            case Apply(objects=objects, namespace=namespace):
                for obj in objects:
                    await self._apply(obj, namespace)
            case Patch(target=target, patch=patch):
                reference = self._reference(target)
                await self._write(reference, self.client(reference).patch(target.name, patch))
            case Scale(target=target, replicas=replicas):
                reference = self._reference(target)
                client, patch = self.client(reference), {"spec": {"replicas": replicas}}
                await self._write(reference, client.patch(target.name, patch, subresource="scale"))
            case Delete(target=target):
                reference = self._reference(target)
                await self._write(reference, self.client(reference).delete(target.name))

    async def _apply(self, obj: Tree, namespace: str) -> None:
        scheme = self._server.running.cluster.server.scheme
        version = GroupVersion.parse(str(obj.get("apiVersion") or ""))
        resource = scheme.resource_of(version.with_kind(obj["kind"]))
        metadata = dict(obj.get("metadata") or {})
        scope = (metadata.get("namespace") or namespace) if resource.namespaced else ""
        client = self._server.internal_client().resource(
            str(version), resource.name, namespace=scope
        )
        if scope:
            metadata["namespace"] = scope
        reference = ObjectRef(resource.qualified_name, scope, metadata.get("name", ""))
        body = obj | {"metadata": metadata}
        await self._write(reference, client.apply(body, manager=MANAGER, force=1))
        if obj["kind"] in ("CustomResourceDefinition", "Namespace"):
            await self._server.settle_async()

    async def update(self, reference: ObjectRef, obj: Tree) -> None:
        """Replace an object. Raises StatusError."""
        await self._write(reference, self.client(reference).update(obj))

    async def annotate_as_other(self, reference: ObjectRef) -> None:
        """Set an annotation as another writer does, if the object is there."""
        self._tracer.other_objects.add(reference)
        try:
            patch = {"metadata": {"annotations": {OTHER_ANNOTATION: "yes"}}}
            with contextlib.suppress(StatusError):
                await self.client(reference).patch(reference.name, patch)
        finally:
            self._tracer.other_objects.discard(reference)

    async def _write(self, reference: ObjectRef, write: Coroutine[Any, Any, Tree]) -> None:
        self._tracer.workload_objects.add(reference)
        try:
            await write
        finally:
            self._tracer.workload_objects.discard(reference)

    def client(self, reference: ObjectRef) -> ResourceClient:
        """Return a client of the object's resource and namespace."""
        resource = find_resource(self._server.running.cluster.server.scheme, reference.resource)
        version = str(GroupVersion(resource.group, resource.versions[0]))
        return self._server.internal_client().resource(
            version, resource.name, namespace=reference.namespace
        )

    def _reference(self, target: Target) -> ObjectRef:
        resource = find_resource(self._server.running.cluster.server.scheme, target.kind)
        namespace = target.namespace if resource.namespaced else ""
        return ObjectRef(resource.qualified_name, namespace, target.name)
