"""The controller of a declared class: reconciles its objects with any client.

What controller-runtime's Builder, Reconciler and finalizer package do, and decorators of kopf:
`reconciles` declares which objects a class of controllers handles, the class says how.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct, field, structs

from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import Client, ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.controllers.loop.background_work import BackgroundWork
from kapiserver.controllers.loop.control_loop import ControlLoop
from kapiserver.extension.clients.informer import Informer
from kapiserver.extension.clients.typed_client import Objects
from kapiserver.extension.objects import AnyObject, Object, OwnerReference
from kapiserver.extension.resources import Resource, resource_of
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.controllers.loop.event_recorder import EventRecorder

_log = logging.getLogger(__name__)


class ControllerContext(Struct, frozen=True, kw_only=True):
    """What a controller runs with.

    client      reads and writes the objects
    clock       counts delays and retries
    namespace   the namespace whose objects are reconciled; "": all
    metrics     those of the work queue
    background  the recorder of events, once there is an event
    """

    client: Client
    clock: Clock
    namespace: str
    metrics: WorkQueueMetrics
    background: list[BackgroundWork] = field(default_factory=list)

    def resource(self, version: str, name: str, *, namespace: str = "") -> ResourceClient:
        """Return the client of a resource."""
        return self.client.resource(version, name, namespace=namespace)


class Declaration(Struct, frozen=True, kw_only=True):
    """What a class of controllers reconciles; see `reconciles`."""

    kind: type[Object]
    owns: Sequence[type[Object]]
    finalizer: str
    label_selector: str


class Controller(ControlLoop[ObjectKey], Generic[AnyObject]):
    """Reconciles the objects of a class; a subclass has the decorator `reconciles`.

    `reconcile` is called for each object that is there, after each change of it or of an object
    that it controls, and again after an error, with exponential backoff. It compares what is there
    with what the object asks for, and writes the difference: it may be called more often than
    needed. For one object it runs once at a time, for different ones `workers` times.

    objects     the typed client of the class, for all namespaces
    """

    min_retry_seconds = 0.1
    declaration: ClassVar[Declaration]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(type(self).__name__, context.clock, context.metrics)
        # Each controller waits for its own events.
        self.context = structs.replace(context, background=[])
        self.objects: Objects[AnyObject] = Objects(context.client, self._kind())
        self.reconciles = 0
        """How many times items were taken from the queue, for `wait_settled`."""
        self._informers: dict[type[Object], Informer[Any]] = {}

    @classmethod
    def _kind(cls) -> type[AnyObject]:
        """Return the class of the objects."""
        return cast("type[AnyObject]", cls.declaration.kind)

    # What a subclass implements.

    async def reconcile(self, obj: AnyObject) -> float | None:
        """Bring the cluster to the state that an object asks for. `obj` is a copy, which may be
        changed and written. Return the seconds after which to reconcile it again, or None."""
        raise NotImplementedError

    async def finalize(self, obj: AnyObject) -> float | None:
        """Delete what an object that is being deleted has outside the cluster. Return None when
        all is done: then the finalizer is removed. Return seconds to be called again."""
        raise NotImplementedError

    # What a subclass uses.

    async def note(self, obj: Object, reason: str, message: str) -> None:
        """Write an event about an object, of the type Normal: `kubectl describe` shows it. It is
        written in the background, after others like it perhaps counted only, and dropped if that
        fails."""
        await self._recorder.note(_involved(obj), reason, message)

    async def warn(self, obj: Object, reason: str, message: str) -> None:
        """Write an event of the type Warning, as `note` does."""
        await self._recorder.warn(_involved(obj), reason, message)

    @functools.cached_property
    def _recorder(self) -> EventRecorder:
        from kapiserver.controllers.loop.event_recorder import EventRecorder  # most write no events

        return EventRecorder(self.context, self.name)

    def client(self, type_: type[OtherObject], *, namespace: str = "") -> Objects[OtherObject]:
        """Return the typed client of a class."""
        return Objects(self.context.client, type_, namespace=namespace)

    def informer(self, type_: type[OtherObject]) -> Informer[OtherObject]:
        """Return the informer of a class that is watched. Raises KeyError."""
        return self._informers[type_]

    def watch(
        self,
        type_: type[OtherObject],
        keys: Callable[[OtherObject], Iterable[ObjectKey]],
        **parameters: Any,
    ) -> Informer[OtherObject]:
        """Watch the objects of another class, in `set_up`. A change of one queues the objects that
        `keys` returns for it, before the change and after it. `parameters` are selectors."""
        objects = Objects(self.context.client, type_, namespace=self.context.namespace)
        informer = Informer(objects, clock=self.clock, **parameters)

        def on_change(old: OtherObject | None, new: OtherObject | None) -> None:
            for obj in (old, new):
                for key in keys(obj) if obj is not None else ():
                    self.queue.add(key)

        informer.add_handler(on_change)
        self._informers[type_] = informer
        return informer

    def set_up(self) -> None:
        """Watch the objects of the class, and those that they control. A subclass that watches
        more calls this method first."""
        declaration = self.declaration
        selector = {"labelSelector": declaration.label_selector}
        parameters = {name: value for name, value in selector.items() if value}
        self.watch(declaration.kind, lambda obj: (key_of(obj),), **parameters)
        for type_ in declaration.owns:
            self.watch(type_, controlled_by(resource_of(declaration.kind)))

    # What the manager uses.

    def start(self) -> None:
        """Begin to watch."""
        super().start()
        for informer in self._informers.values():
            informer.start()

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        for informer in self._informers.values():
            await informer.stop()
        await super().stop()
        for work in self.context.background:
            await work.stop()

    @property
    def is_synced(self) -> bool:
        """Whether the informers have all objects."""
        return all(informer.is_synced for informer in self._informers.values())

    async def wait_settled(self) -> None:
        """Wait until the informers show all writes so far, and no item is queued or being
        reconciled. Items that wait for a delay or a retry do not count. Raises StatusError."""
        for informer in self._informers.values():
            await informer.fresh()
        await self.queue.wait_idle()
        for work in self.context.background:
            await work.wait_idle()

    async def _reconcile_synced(self, item: ObjectKey) -> None:
        self.reconciles += 1
        for informer in self._informers.values():
            await informer.wait_synced()
        obj = self._informers[self.declaration.kind].get(item.name, item.namespace)
        if obj is None:
            return
        try:
            seconds = await self._reconcile(copy.deepcopy(obj))
        except Exception as error:
            is_conflict = isinstance(error, StatusError) and error.reason == "Conflict"
            if not is_conflict:  # somebody else has changed the object, which is usual
                _log.warning("%s: %s failed", self.name, item, exc_info=True)
            raise
        if seconds is not None:
            self.queue.add_after(item, seconds)

    async def _reconcile(self, obj: AnyObject) -> float | None:
        finalizer, finalizers = self.declaration.finalizer, obj.metadata.finalizers
        if obj.metadata.deletion_timestamp is None:
            if finalizer and finalizer not in finalizers:
                obj = await self._set_finalizers(obj, [*finalizers, finalizer])
            return await self.reconcile(obj)
        if finalizer not in finalizers:
            return None
        seconds = await self.finalize(obj)
        if seconds is None:
            others = [other for other in finalizers if other != finalizer]
            await self._set_finalizers(obj, others)
        return seconds

    async def _set_finalizers(self, obj: AnyObject, finalizers: Sequence[str]) -> AnyObject:
        """Write the finalizers if nobody else has changed the object. Raises StatusError."""
        metadata = obj.metadata
        version = metadata.resource_version
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
        return await self.objects.patch(metadata.name, patch, namespace=metadata.namespace)


OtherObject = TypeVar("OtherObject", bound=Object)
AnyController = TypeVar("AnyController", bound=Controller[Any])


def reconciles(
    type_: type[Object],
    *,
    owns: Sequence[type[Object]] = (),
    finalizer: str = "",
    label_selector: str = "",
) -> Callable[[type[AnyController]], type[AnyController]]:
    """Declare what a class of controllers reconciles: the objects of a class that a Resource
    declares.

    owns            classes of objects that they control: a change of one reconciles its owner
    finalizer       is set on each object before it is reconciled the first time, and removed when
                    `finalize` is done
    label_selector  selects the objects

    Raises TypeError for a class without a Resource, and for a finalizer without `finalize`.
    """
    for watched_type in (type_, *owns):
        resource_of(watched_type)

    def declare(controller: type[AnyController]) -> type[AnyController]:
        if bool(finalizer) != (controller.finalize is not Controller.finalize):
            raise TypeError(
                f"{controller.__name__} needs both a finalizer and finalize, or neither"
            )
        controller.declaration = Declaration(
            kind=type_, owns=tuple(owns), finalizer=finalizer, label_selector=label_selector
        )
        return controller

    return declare


def _involved(obj: Object) -> Tree:
    """Return what an event needs to know of an object."""
    resource, metadata = resource_of(type(obj)), obj.metadata
    return {
        "apiVersion": str(GroupVersion(resource.group, resource.version_of(type(obj)))),
        "kind": resource.kind,
        "metadata": {
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
    }


def key_of(obj: Object) -> ObjectKey:
    """Return the key of an object."""
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


def owner_reference(owner: Object) -> OwnerReference:
    """Return the reference that makes an object the controller of another one, which is deleted
    with it."""
    resource = resource_of(type(owner))
    version = GroupVersion(resource.group, resource.version_of(type(owner)))
    return OwnerReference(
        api_version=str(version),
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def controlled_by(resource: Resource[Any]) -> Callable[[Object], Iterable[ObjectKey]]:
    """Return a function that returns the key of the object of a resource that controls another
    one."""

    def owners(obj: Object) -> Iterable[ObjectKey]:
        for owner in obj.metadata.owner_references:
            group = GroupVersion.parse(owner.api_version).group
            if owner.controller and (group, owner.kind) == (resource.group, resource.kind):
                yield ObjectKey(obj.metadata.namespace if resource.namespaced else "", owner.name)

    return owners
