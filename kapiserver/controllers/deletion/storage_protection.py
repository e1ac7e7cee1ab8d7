"""Remove the protection finalizer of deleted claims, volumes and classes once nothing uses them.

Admission adds the finalizer when the object is created. Mirrors
pkg/controller/volume/pvcprotection, pvprotection and vacprotection.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from kapiserver.api.accessors import (
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion, Resource
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.metadata_informer import DeletedObject, ObjectMetadata

_STORAGE = GroupVersion("storage.k8s.io", "v1")


class _User(Struct, frozen=True, kw_only=True):
    """A resource whose objects may use protected ones.

    references  the keys (`namespace/name`, or the name of a cluster-scoped object) that an object
                of the resource may use
    uses        whether an object (the first) uses a protected one (the second)
    """

    version: GroupVersion
    resource: str
    references: Callable[[Tree], Iterable[str]]
    uses: Callable[[Tree, Tree], bool] = lambda _user, _protected: True


class _ProtectedKind(Struct, frozen=True, kw_only=True):
    """A kind of protected objects; `in_use` tells from its status whether an object is in use."""

    version: GroupVersion
    resource: str
    finalizer: str
    users: tuple[_User, ...] = ()
    in_use: Callable[[Tree], bool] = lambda _protected: False


class ProtectionController(Controller[ObjectKey]):
    """The control loop of one kind; its queue holds keys of objects.

    The metadata informer delivers deletions. The first deletion watches the users.
    """

    workers = 4

    def __init__(self, context: ControllerContext, kind: _ProtectedKind) -> None:
        super().__init__(context)
        self._kind = kind
        self._waiting: dict[str, ObjectKey] = {}
        """Deleted objects that were in use at the last reconcile, by reference."""
        self._indexes = {user: Index(_references_of(user)) for user in kind.users}
        """The users of each resource, by the references that they contain."""

    def set_up(self) -> None:
        """Subscribe to the metadata of the protected objects."""
        resource, group = self._kind.resource, self._kind.version.group
        name = f"{resource}.{group}" if group else resource
        self.add_subscription(self.context.metadata.subscribe(self, frozenset({name})))

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self.queue.clear()
        self._waiting.clear()

    def on_upsert(self, observed: ObjectMetadata) -> None:
        """A protected object was created or changed."""
        # It is deleted, or it was created while nothing added the finalizer.
        if observed.terminating is (self._kind.finalizer in observed.finalizers):
            self.queue.add(observed.key)

    def on_delete(self, deleted: DeletedObject) -> None:
        """An object was deleted."""
        if self._is_protected(deleted.resource):
            self._waiting.pop(_reference(*deleted.key), None)

    def _is_protected(self, resource: Resource) -> bool:
        kind = self._kind
        return resource.name == kind.resource and resource.group == kind.version.group

    def _unused(self, user: _User, change: ObjectChange) -> Iterator[ObjectKey]:
        """Yield the waiting objects that an object used before a change."""
        if self._waiting and change.old is not None:
            for reference in user.references(change.old.tree()):
                if reference in self._waiting:
                    yield self._waiting[reference]

    async def reconcile(self, key: ObjectKey) -> None:
        """Add the finalizer to an object, or remove it from a deleted one that nothing uses."""
        store = self.server.stores.by_name(self._kind.version, self._kind.resource)
        objects = self.context.resource(
            str(self._kind.version), self._kind.resource, namespace=key.namespace
        )
        reference = _reference(*key)
        self._waiting.pop(reference, None)
        with contextlib.suppress(NotFound):
            obj = (await store.get(key)).tree()
            finalizers = finalizers_of(obj)
            if not is_terminating(obj):
                if self._kind.finalizer not in finalizers:
                    await update_object(objects, key.name, self._with_finalizer, uid=uid_of(obj))
            elif self._kind.finalizer in finalizers:
                self._waiting[reference] = key  # before the check: users may be deleted during it
                if not await self._is_used(obj, reference):
                    self._waiting.pop(reference, None)
                    await update_object(objects, key.name, self._without_finalizer, uid=uid_of(obj))

    async def _is_used(self, obj: Tree, reference: str) -> bool:
        """Return whether an object uses this one, according to the store at the time of the call.
        Raises StorageError."""
        for user, index in self._indexes.items():
            handler = functools.partial(self._unused, user)
            informer = self.watch(user.version, user.resource, handler, index)
            await self.wait_synced()
            await informer.fresh()
            if any(user.uses(entry.tree(), obj) for entry in index.get(reference)):
                return True
        return self._kind.in_use(obj)

    def _with_finalizer(self, obj: Tree) -> Tree:
        if not is_terminating(obj) and self._kind.finalizer not in finalizers_of(obj):
            metadata_of(obj)["finalizers"] = [*finalizers_of(obj), self._kind.finalizer]
        return obj

    def _without_finalizer(self, obj: Tree) -> Tree:
        remaining_finalizers = [item for item in finalizers_of(obj) if item != self._kind.finalizer]
        if remaining_finalizers:
            metadata_of(obj)["finalizers"] = remaining_finalizers
        else:
            metadata_of(obj).pop("finalizers", None)
        return obj


def _reference(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _references_of(user: _User) -> Callable[[Entry], Iterable[str]]:
    return lambda entry: user.references(entry.tree())


def _claims_of_pod(pod: Tree) -> Iterator[str]:
    for volume in value_at(pod, "spec", "volumes") or ():
        name = value_at(volume, "persistentVolumeClaim", "claimName")
        if name:
            yield _reference(namespace_of(pod), name)
        if volume.get("ephemeral") is not None:
            yield _reference(namespace_of(pod), f"{name_of(pod)}-{volume.get('name')}")


def _pod_uses(pod: Tree, claim: Tree) -> bool:
    if not value_at(pod, "spec", "nodeName"):  # the kubelet will not start it any more
        return False
    finished = value_at(pod, "status", "phase") in ("Failed", "Succeeded")
    owners = metadata_of(claim).get("ownerReferences") or ()
    owned = any(owner.get("uid") == uid_of(pod) and owner.get("controller") for owner in owners)
    for volume in value_at(pod, "spec", "volumes") or ():
        if value_at(volume, "persistentVolumeClaim", "claimName") == name_of(claim):
            return True
        has_name = f"{name_of(pod)}-{volume.get('name')}" == name_of(claim)
        if volume.get("ephemeral") is not None and has_name and owned and not finished:
            return True
    return False


def _classes_of(obj: Tree) -> Iterator[str]:
    """Yield the names of VolumeAttributesClasses that a volume or claim refers to."""
    for path in (
        ("spec", "volumeAttributesClassName"),
        ("status", "currentVolumeAttributesClassName"),
        ("status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
    ):
        name = value_at(obj, *path)
        if name:
            yield name


_CLAIMS = _ProtectedKind(
    version=CORE,
    resource="persistentvolumeclaims",
    finalizer="kubernetes.io/pvc-protection",
    users=(_User(version=CORE, resource="pods", references=_claims_of_pod, uses=_pod_uses),),
)
_VOLUMES = _ProtectedKind(
    version=CORE,
    resource="persistentvolumes",
    finalizer="kubernetes.io/pv-protection",
    in_use=lambda volume: bool(value_at(volume, "status", "phase") == "Bound"),
)
_CLASSES = _ProtectedKind(
    version=_STORAGE,
    resource="volumeattributesclasses",
    finalizer="kubernetes.io/vac-protection",
    users=(
        _User(version=CORE, resource="persistentvolumes", references=_classes_of),
        _User(version=CORE, resource="persistentvolumeclaims", references=_classes_of),
    ),
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
