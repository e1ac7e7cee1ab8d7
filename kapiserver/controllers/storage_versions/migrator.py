"""Rewrites the stored objects of a resource when a StorageVersionMigration asks for it.

A stored object stays in the version, with the encryption key, in which it was last written. The
migrator sends a patch that changes nothing to each object: the server then rewrites those whose
stored bytes are not the current ones. Objects newer than the start of the migration are current.

A reconcile handles all migrations of one resource. It writes one step of their status, and the
change brings it back for the next step. Mirrors pkg/controller/storageversionmigrator, whose three
controllers are one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kapiserver.api.accessors import copy_tree, name_of, namespace_of, value_at
from kapiserver.api.columns import parse_time
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.storage_versions.migration_plan import (
    SUCCEEDED,
    closed_condition,
    failed_condition,
    is_true,
    migrated_status,
    migrating_status,
    running_condition,
    steps_of,
    succeeded_condition,
    with_condition,
)
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

SETTLE_SECONDS = 60.0
"""A migration of a resource that is not served fails when it is this old."""
_MIGRATION = GroupVersion("storagemigration.k8s.io", "v1")
_DEFINITION = GroupVersion("apiextensions.k8s.io", "v1")
_VERBS = ("update", "patch", "list")
_MANAGER = "migration-runner-controller"
_RETRIABLE = ("ServerTimeout", "TooManyRequests", "ServiceUnavailable", "InternalError", "Timeout")


class GroupResource(NamedTuple):
    """The resource of a migration."""

    group: str
    resource: str


class NotServedYet(Exception):
    """The resource of a new migration is not served; the queue tries again."""


class StorageVersionMigrator(Controller[GroupResource]):
    """The control loop; its queue holds resources that have migrations."""

    workers = 5
    max_retry_seconds = 15.0

    def set_up(self) -> None:
        """Watch migrations."""
        self._migrations = self.watch(_MIGRATION, "storageversionmigrations", _resources_of)

    async def reconcile(self, resource: GroupResource) -> None:
        """Do the next step of the migrations of a resource."""
        steps = steps_of(self._migrations_of(resource))
        for migration in steps.to_close:
            await self._close(resource, migration)
        if steps.running is not None:
            await self._run(resource, steps.running)
        elif steps.to_start is not None:
            await self._start(resource, steps.to_start)

    def _migrations_of(self, resource: GroupResource) -> Iterator[Tree]:
        for entry in self._migrations.lister.list():
            migration = entry.tree()
            if _resource_of(migration) == resource:
                yield migration

    # The steps.

    async def _start(self, resource: GroupResource, migration: Tree) -> None:
        await self._write_definition(
            resource, lambda state: migrating_status(state, name_of(migration), self._now())
        )
        await self._write(migration, running_condition())

    async def _close(self, resource: GroupResource, migration: Tree) -> None:
        succeeded = is_true(migration, SUCCEEDED)
        await self._write_definition(
            resource, lambda state: migrated_status(state, succeeded=succeeded, now=self._now())
        )
        await self._write(migration, closed_condition())

    async def _run(self, resource: GroupResource, migration: Tree) -> None:
        served = self._served(resource)
        objects = self.context.served_resource(served) if served is not None else None
        if served is None or objects is None:
            created = parse_time(value_at(migration, "metadata", "creationTimestamp"))
            if created and created.timestamp() + SETTLE_SECONDS > self.clock.now():
                raise NotServedYet(f"{resource.resource}.{resource.group} is not served")
            await self._write(migration, failed_condition("resource does not exist in discovery"))
            return
        if not set(_VERBS) <= set(served.verbs):
            name = f"{resource.group}/{objects.version.version}, Resource={resource.resource}"
            verbs = " ".join(_VERBS)
            problem = f'resource "{name}" does not support discovery operations: [{verbs}]'
            await self._write(migration, failed_condition(problem))
            return
        start = value_at(migration, "status", "resourceVersion")
        if start:
            await self._rewrite(migration, served, objects, int(start))
            return
        newest = (await objects.shared.list_page(limit=1))["metadata"]["resourceVersion"]
        status = {**migration["status"], "resourceVersion": newest}
        await self._update({**migration, "status": status})

    async def _rewrite(
        self, migration: Tree, served: Resource, objects: ResourceClient, start: int
    ) -> None:
        """Rewrite all objects of a resource that are not newer than a resource version."""
        total = 0
        async for page in objects.shared.pages(expired="continue"):
            items = page.get("items") or []
            later = page["metadata"].get("remainingItemCount") or 0
            for index, item in enumerate(items):
                if int(item["metadata"]["resourceVersion"]) > start:
                    continue
                problem = await self._patch(served, item)
                if problem is None:
                    continue
                remaining = len(items) - index + later
                await self._report(migration, remaining, total + len(items) + later, problem)
                return
            total += len(items)
        done = with_condition(migration, running_condition(total=total), self._now())
        await self._write(done, succeeded_condition())

    async def _patch(self, served: Resource, item: Tree) -> StatusError | None:
        """Rewrite one object. Return why it cannot be rewritten; None if it is current."""
        patch = {
            "apiVersion": item["apiVersion"],
            "kind": item["kind"],
            "metadata": {"resourceVersion": item["metadata"]["resourceVersion"]},
        }
        client = self.context.served_resource(served, namespace=namespace_of(item))
        if client is None:  # its definition was deleted
            return None
        try:
            await client.shared.patch(name_of(item), patch)
        except StatusError as error:
            # Another writer rewrote it with the current storage version, or deleted it.
            return None if error.reason in ("Conflict", "NotFound") else error
        return None

    async def _report(
        self, migration: Tree, remaining: int, total: int, problem: StatusError
    ) -> None:
        """Note a failed patch. Raises the error if the migration may go on later."""
        if problem.reason in _RETRIABLE:
            await self._write(migration, running_condition(remaining, total, str(problem)))
            raise problem
        running = with_condition(migration, running_condition(remaining, total), self._now())
        message = (
            f"{remaining}/{total} not yet migrated. migration encountered unhandled error: "
            f"{problem}"
        )
        await self._write(running, failed_condition(message))

    # Reads and writes.

    def _served(self, resource: GroupResource) -> Resource | None:
        for stored_resource in self.server.scheme.stored_resources():
            if (stored_resource.group, stored_resource.name) == resource:
                return stored_resource
        return None

    async def _write(self, migration: Tree, condition: Tree) -> None:
        await self._update(with_condition(migration, condition, self._now()))

    async def _update(self, migration: Tree) -> None:
        """Update the status of a migration. After a conflict its newer state is in the queue."""
        client = self.context.resource(str(_MIGRATION), "storageversionmigrations")
        desired = copy_tree({**migration, "apiVersion": str(_MIGRATION)})
        with suppress_reason("Conflict", "NotFound"):
            await client.update(desired, subresource="status")

    async def _write_definition(
        self, resource: GroupResource, status: Callable[[Tree], Tree]
    ) -> None:
        """Apply a status to the definition of a custom resource, unless there is none."""
        if self.server.scheme.custom.by_plural(resource.group, resource.resource) is None:
            return
        client = self.context.resource(str(_DEFINITION), "customresourcedefinitions")
        name = f"{resource.resource}.{resource.group}"
        with suppress_reason("NotFound"):
            definition = await client.get(name)
            version = definition["metadata"]["resourceVersion"]
            applied = {
                "apiVersion": str(_DEFINITION),
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name, "resourceVersion": version},
                "status": status(definition),
            }
            await client.apply(applied, manager=_MANAGER, subresource="status", force=1)

    def _now(self) -> str:
        return timestamp(self.clock.now())


def _resource_of(migration: Tree) -> GroupResource:
    resource = migration["spec"]["resource"]
    return GroupResource(resource.get("group") or "", resource["resource"])


def _resources_of(change: ObjectChange) -> Iterable[GroupResource]:
    """Queue the resource of a migration that appeared, changed or was deleted."""
    return (_resource_of(change.last.tree()),)
