"""The objects of extension API servers, as the garbage collector observes and changes them.

This server does not store them, so the metadata informer does not see them. A task for each
resource lists and watches their metadata; a resource that cannot be watched has no owners that
count, but its objects may be owners: those are read when they are needed. Mirrors resyncMonitors of
pkg/controller/garbagecollector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.resource_client import Event, ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.aggregation.aggregated_resources import (
    AggregatedKind,
    aggregated_resources,
)
from kapiserver.controllers.deletion.owner_graph import OwnerGraph
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import wait
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.objects.metadata_informer import (
    DeletedObject,
    MetadataHandler,
    ObjectMetadata,
)

WATCH_SECONDS = 300
RETRY_SECONDS = 30.0
"""The wait after a list or watch that is refused."""
_OBSERVED_VERBS = frozenset(("list", "watch", "delete"))

_log = logging.getLogger(__name__)


class AggregatedObjects:
    """Delivers the metadata of the objects to a handler, and reads single ones.

    objects     those with a uid that the handler has received, by path
    """

    def __init__(
        self,
        context: ControllerContext,
        handler: MetadataHandler,
        graph: OwnerGraph,
        on_discovered: Callable[[], object],
    ) -> None:
        """`graph` forgets what is no longer observed; `on_discovered` is called when other
        resources are served than before."""
        self.objects: dict[str, ObjectMetadata] = {}
        self._context = context
        self._handler = handler
        self._graph = graph
        self._on_discovered = on_discovered
        self._api_services = context.server.api_services
        self._kinds: Mapping[tuple[str, str], AggregatedKind] = {}
        """The resources by group and kind."""
        self._tasks: dict[AggregatedKind, asyncio.Task[None]] = {}

    def start(self) -> Subscription:
        """Observe the resources that are served now and later, until the subscription ends and
        `stop` is called."""
        self._update()
        return self._api_services.subscribe_discovery(self._update)

    async def stop(self) -> None:
        """End the watches. Idempotent."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def deliver_again(self) -> None:
        """Pass all objects to the handler, which has dropped its state."""
        for observed in self.objects.values():
            self._handler.on_upsert(observed)

    def serves(self, version: GroupVersion) -> bool:
        """Report whether an extension API server has the objects of a group-version."""
        return self._api_services.server_of(version) is not None

    def resource_of(self, kind: GroupVersionKind) -> AggregatedKind:
        """Return the resource of a kind. Raises NotRegistered."""
        resource = self._kinds.get((kind.group_version.group, kind.kind))
        if resource is None:
            raise NotRegistered.of_kind(kind)
        return resource

    def client(self, resource: AggregatedKind, namespace: str) -> ResourceClient:
        """Return the controller's client of a resource."""
        version = GroupVersion(resource.group, resource.storage_version)
        return self._context.resource(str(version), resource.name, namespace=namespace)

    async def read(self, resource: AggregatedKind, key: ObjectKey) -> Tree | None:
        """Return an object; None if there is none. Raises StatusError."""
        try:
            return await self.client(resource, key.namespace).get(key.name)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    def uid_of(self, path: str) -> str:
        """Return the uid of the object at a path as last observed, or ""."""
        observed = self.objects.get(path)
        return observed.uid if observed is not None else ""

    def _update(self) -> None:
        served = aggregated_resources(self._api_services)
        kinds = {(resource.group, resource.kind): resource for resource in served.resources}
        has_changed, self._kinds = kinds != self._kinds, kinds
        observed = {
            resource for resource in served.resources if _OBSERVED_VERBS.issubset(resource.verbs)
        }
        for resource in self._tasks.keys() - observed:
            version = GroupVersion(resource.group, resource.storage_version)
            if version not in served.failed:  # it may come back, and its objects with it
                self._forget(resource)
        for resource in observed - self._tasks.keys():
            self._tasks[resource] = asyncio.create_task(self._follow(resource))
        if has_changed:
            self._on_discovered()

    def _forget(self, resource: AggregatedKind) -> None:
        """Stop observing a resource. Its objects are not deleted: nobody knows whether they are
        there."""
        self._tasks.pop(resource).cancel()
        for path in [path for path, obj in self.objects.items() if obj.resource == resource]:
            del self.objects[path]
            self._graph.forget(path)

    async def _follow(self, resource: AggregatedKind) -> None:
        from kapiserver.apiserver.proxy.aggregated_client import AggregatedResource

        context = self._context
        version = GroupVersion(resource.group, resource.storage_version)
        while True:
            client = AggregatedResource(
                context.server, context.user, version, resource.name, only_metadata=True
            )
            try:
                async for event in client.follow(timeoutSeconds=WATCH_SECONDS):
                    self._take(resource, event)
            except StatusError as error:
                _log.info("%s are not observed: %s; trying again", resource.qualified_name, error)
            except Exception:
                _log.exception("%s are not observed; trying again", resource.qualified_name)
            await wait(context.server.clock, RETRY_SECONDS)

    def _take(self, resource: AggregatedKind, event: Event) -> None:
        metadata = event.object.get("metadata") or {}
        key = ObjectKey(metadata.get("namespace") or "", metadata.get("name") or "")
        path, uid = path_of(resource, key), metadata.get("uid") or ""
        if event.type == "DELETED":
            self.objects.pop(path, None)
            self._handler.on_delete(DeletedObject(resource, path, uid))
        elif uid:
            observed = self.objects[path] = ObjectMetadata(
                resource=resource,
                path=path,
                uid=uid,
                owners=tuple(metadata.get("ownerReferences") or ()),
                finalizers=tuple(metadata.get("finalizers") or ()),
                terminating=bool(metadata.get("deletionTimestamp")),
            )
            self._handler.on_upsert(observed)


def path_of(resource: AggregatedKind, key: ObjectKey) -> str:
    """Return what names an object in place of a key of the store."""
    scope = f"/{key.namespace}" if key.namespace else ""
    return f"aggregated:{resource.qualified_name}{scope}/{key.name}"
