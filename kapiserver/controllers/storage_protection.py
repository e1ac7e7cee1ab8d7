"""Remove the protection finalizer of deleted claims, volumes and classes once nothing uses them.

Admission adds the finalizer when the object is created. Mirrors
pkg/controller/volume/pvcprotection, pvprotection and vacprotection.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kapiserver.api.accessors import (
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.workqueue import WorkQueue
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.metadata_informer import ObjectMetadata
from kapiserver.storage.query import ListQuery, Preconditions

WORKERS = 4
_STORAGE = GroupVersion("storage.k8s.io", "v1")
_CLASS = "volumeAttributesClassName"


@dataclass(frozen=True, slots=True)
class _ProtectedKind:
    """A kind of protected objects; `users` are the resources whose objects may use them."""

    controller: str
    version: GroupVersion
    name: str
    finalizer: str
    users: tuple[str, ...]
    is_used: Callable[[Server, Tree], Awaitable[bool]]


class ProtectionController:
    """The control loop of one kind; its queue holds keys of objects."""

    def __init__(self, context: ControllerContext, kind: _ProtectedKind) -> None:
        self._server = context.server
        self._metadata = context.metadata
        self._kind = kind
        self._waiting: set[ObjectKey] = set()
        """Deleted, and in use at the last reconcile."""
        self._queue: WorkQueue[ObjectKey] = WorkQueue(
            self._reconcile, context.server.clock, workers=WORKERS, name=kind.controller
        )

    async def start(self) -> None:
        """Subscribe to the metadata of all objects."""
        self._metadata.subscribe(self)

    async def stop(self) -> None:
        """End, cancelling reconciles in progress."""
        await self._queue.stop()

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self._queue.clear()
        self._waiting.clear()

    def on_upsert(self, seen: ObjectMetadata) -> None:
        """An object was created or changed."""
        kind = self._kind
        if seen.resource.name == kind.name and seen.resource.group == kind.version.group:
            # It is let go, or it was made when nobody protected it.
            if seen.terminating is (kind.finalizer in seen.finalizers):
                self._queue.add(seen.key)
        elif self._waiting:
            self._on_user_changed(seen)

    def on_delete(self, seen: ObjectMetadata) -> None:
        """An object is there no more: perhaps it was the last that used one."""
        if self._waiting:
            self._on_user_changed(seen)

    def _on_user_changed(self, seen: ObjectMetadata) -> None:
        if seen.resource.qualified_name in self._kind.users:
            for key in self._waiting:
                if key.namespace in ("", seen.key.namespace):
                    self._queue.add(key)

    async def _reconcile(self, key: ObjectKey) -> None:
        store = self._server.stores.by_name(self._kind.version, self._kind.name)
        self._waiting.discard(key)
        with contextlib.suppress(NotFound):
            obj = (await store.get(key)).tree()
            finalizers = finalizers_of(obj)
            held = Preconditions(uid=uid_of(obj))
            if not is_terminating(obj):
                if self._kind.finalizer not in finalizers:
                    await store.update(key, self._with_finalizer, preconditions=held)
            elif self._kind.finalizer in finalizers:
                self._waiting.add(key)  # before looking: users may go meanwhile
                if not await self._kind.is_used(self._server, obj):
                    self._waiting.discard(key)
                    await store.update(key, self._without_finalizer, preconditions=held)

    def _with_finalizer(self, obj: Tree | None) -> Tree:
        assert obj is not None
        if not is_terminating(obj) and self._kind.finalizer not in finalizers_of(obj):
            metadata_of(obj)["finalizers"] = [*finalizers_of(obj), self._kind.finalizer]
        return obj

    def _without_finalizer(self, obj: Tree | None) -> Tree:
        assert obj is not None
        left = [one for one in finalizers_of(obj) if one != self._kind.finalizer]
        if left:
            metadata_of(obj)["finalizers"] = left
        else:
            metadata_of(obj).pop("finalizers", None)
        return obj


async def _claim_is_used(server: Server, claim: Tree) -> bool:
    namespace = claim["metadata"].get("namespace") or ""
    listed = await server.stores.by_name(CORE, "pods").list(ListQuery(namespace=namespace))
    return any(_uses(entry.tree(), claim) for entry in listed.entries)


def _uses(pod: Tree, claim: Tree) -> bool:
    if not value_at(pod, "spec", "nodeName"):  # the kubelet will not start it any more
        return False
    ended = value_at(pod, "status", "phase") in ("Failed", "Succeeded")
    owners = metadata_of(claim).get("ownerReferences") or ()
    own = any(one.get("uid") == uid_of(pod) and one.get("controller") for one in owners)
    for volume in value_at(pod, "spec", "volumes") or ():
        if value_at(volume, "persistentVolumeClaim", "claimName") == name_of(claim):
            return True
        made = f"{name_of(pod)}-{volume.get('name')}" == name_of(claim)
        if volume.get("ephemeral") is not None and made and own and not ended:
            return True
    return False


async def _volume_is_used(_: Server, volume: Tree) -> bool:
    return bool(value_at(volume, "status", "phase") == "Bound")


async def _class_is_used(server: Server, class_: Tree) -> bool:
    name = name_of(class_)
    volumes = await server.stores.by_name(CORE, "persistentvolumes").list(ListQuery())
    if any(value_at(one.tree(), "spec", _CLASS) == name for one in volumes.entries):
        return True
    claims = await server.stores.by_name(CORE, "persistentvolumeclaims").list(ListQuery())
    wanted = (
        ("spec", _CLASS),
        ("status", "currentVolumeAttributesClassName"),
        ("status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
    )
    trees = [entry.tree() for entry in claims.entries]
    return any(value_at(claim, *path) == name for claim in trees for path in wanted)


_CLAIMS = _ProtectedKind(
    "persistentvolumeclaim-protection-controller",
    CORE,
    "persistentvolumeclaims",
    "kubernetes.io/pvc-protection",
    ("pods",),
    _claim_is_used,
)
_VOLUMES = _ProtectedKind(
    "persistentvolume-protection-controller",
    CORE,
    "persistentvolumes",
    "kubernetes.io/pv-protection",
    (),
    _volume_is_used,
)
_CLASSES = _ProtectedKind(
    "volumeattributesclass-protection-controller",
    _STORAGE,
    "volumeattributesclasses",
    "kubernetes.io/vac-protection",
    ("persistentvolumeclaims", "persistentvolumes"),
    _class_is_used,
)


def claim_protection_controller(context: ControllerContext) -> ProtectionController:
    """Return the controller that protects claims."""
    return ProtectionController(context, _CLAIMS)


def volume_protection_controller(context: ControllerContext) -> ProtectionController:
    """Return the controller that protects persistent volumes."""
    return ProtectionController(context, _VOLUMES)


def class_protection_controller(context: ControllerContext) -> ProtectionController:
    """Return the controller that protects VolumeAttributesClasses."""
    return ProtectionController(context, _CLASSES)
