"""Finalize CustomResourceDefinitions that are deleted: delete their objects, then the finalizer.

It runs on every server, as the controller of their status does. Mirrors the finalizing controller
of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import finalizers_of, is_terminating
from kapiserver.api.conditions import condition, set_condition
from kapiserver.api.types import Tree
from kapiserver.apiserver.customresources.custom_resources import APIEXTENSIONS
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import replace_fields
from kapiserver.controllers.status.crd_status import DEFINITIONS, write_status
from kapiserver.storage.cache.query import DeleteQuery, ListQuery
from kapiserver.storage.objects.informer import InformerSubscription, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp
from kapiserver.storage.objects.object_store import ResourceStore

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class CRDFinalizer(Controller[str]):
    """The control loop; its queue holds names of deleted definitions."""

    workers = 5

    def set_up(self) -> None:
        """Queue the definitions that are being deleted, now and later."""
        self._custom = self.server.custom_resources
        self._deletion_watches: dict[str, InformerSubscription] = {}
        """The subscriptions to the objects of definitions, by definition."""
        self.add_subscription(self._custom.subscribe(self._on_definitions_changed))
        self._on_definitions_changed(list(self._custom.summaries))

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        await super().stop()
        for name in list(self._deletion_watches):
            self._stop_watching_deletions(name)

    def _on_definitions_changed(self, names: Sequence[str]) -> None:
        for name in names:
            head = self._custom.summaries.get(name)
            if head is not None and is_terminating(head) and _has_finalizer(head):
                self.queue.add(name)

    async def reconcile(self, name: str) -> None:
        """Delete the objects of a deleted definition; without any, remove its finalizer."""
        head = self._custom.summaries.get(name)
        if head is None or not is_terminating(head) or not _has_finalizer(head):
            self._stop_watching_deletions(name)
            return
        definition = self.server.scheme.custom.by_name(name)
        if definition is None:
            await self._set_terminating(
                name, "False", "NeverEstablished", "resource was never established"
            )
        else:
            if (condition(head, "Terminating") or {}).get("reason") == "InstanceDeletionPending":
                await self._set_terminating(
                    name,
                    "True",
                    "InstanceDeletionInProgress",
                    "CustomResource deletion is in progress",
                )
            objects = self.server.stores.get(definition.stored_version.resource)
            if not await self._delete_objects(objects, name):
                return
            await self._set_terminating(
                name, "False", "InstanceDeletionCompleted", "removed all instances"
            )
        self._stop_watching_deletions(name)
        await self._remove_finalizer(name, head["metadata"]["uid"])

    async def _set_terminating(self, name: str, value: str, reason: str, message: str) -> None:
        now = timestamp(self.clock.now())

        def new_status(current: Tree) -> Tree:
            return set_condition(current["status"], "Terminating", value, reason, message, now=now)

        await write_status(self.context, name, new_status)

    async def _delete_objects(self, objects: ResourceStore, name: str) -> bool:
        """Delete all objects of the definition. Return whether none is left; if some are, the next
        deletion queues the definition again. As in kube-apiserver, this skips admission."""
        self._watch_deletions(objects, name)
        query = ListQuery()
        if (await objects.list(ListQuery(limit=1))).entries:
            await objects.delete_collection(query, DeleteQuery())
        return not (await objects.list(ListQuery(limit=1))).entries

    def _watch_deletions(self, objects: ResourceStore, name: str) -> None:
        """Queue the definition again whenever one of its objects is deleted."""

        def on_change(change: ObjectChange) -> None:
            if change.new is None:
                self.queue.add(name)

        watched = self._deletion_watches.get(name)
        if watched is None or watched.informer is not objects.informer:
            self._stop_watching_deletions(name)
            subscription = objects.informer.subscribe(on_change)
            self._deletion_watches[name] = subscription

    def _stop_watching_deletions(self, name: str) -> None:
        subscription = self._deletion_watches.pop(name, None)
        if subscription is not None:
            subscription.cancel()

    async def _remove_finalizer(self, name: str, uid: str) -> None:
        def fields(current: Tree) -> Tree:
            finalizers = finalizers_of(current)
            remaining = [item for item in finalizers if item != FINALIZER]
            return {} if remaining == finalizers else {"/metadata/finalizers": remaining}

        definitions = self.context.resource(str(APIEXTENSIONS), DEFINITIONS)
        await replace_fields(definitions, name, fields, uid=uid)


def _has_finalizer(head: Tree) -> bool:
    return FINALIZER in finalizers_of(head)
