"""The typed informer: the objects of a class in memory, their changes, and indexes.

    databases = Informer(client.objects(Database))
    databases.add_index("engine", lambda database: [database.spec.engine])
    databases.add_handler(on_change)
    async with databases:
        await databases.wait_synced()
        databases.get("orders", "default")
        databases.by_index("engine", "mysql")

It lists and watches with any client, and begins again after errors. Mirrors SharedIndexInformer of
client-go; the informers of `storage/objects/informer.py` are inside a server and read its cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias

import msgspec

from kapiserver.api.accessors import name_of, namespace_of
from kapiserver.api.resource_client import Event
from kapiserver.api.types import Tree
from kapiserver.extension.clients.typed_client import Objects
from kapiserver.extension.objects import AnyObject
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import Clock, SystemClock, wait

RETRY_SECONDS = 5.0
"""The wait before the objects are listed again after an error that `follow` raises: the resource is
not served yet, or may not be read."""

Handler: TypeAlias = Callable[[AnyObject | None, AnyObject | None], None]
"""Called with an object before and after a change; None: it was, or is, not there."""
Values: TypeAlias = Callable[[AnyObject], Iterable[str]]
"""Returns the values of an object in an index."""

_log = logging.getLogger(__name__)


class Informer(Generic[AnyObject]):
    """The objects of a class.

    An object that does not fit the class is logged and left out. The objects that the informer
    returns are shared: a program that changes one copies it first (`copy.deepcopy`).

    objects     which class and namespace
    clock       counts the wait after errors
    parameters  selectors, such as `labelSelector`
    """

    def __init__(
        self, objects: Objects[AnyObject], *, clock: Clock | None = None, **parameters: Any
    ) -> None:
        self._source = objects
        self._clock = clock or SystemClock()
        self._parameters = parameters
        self._objects: dict[ObjectKey, AnyObject] = {}
        self._versions: dict[ObjectKey, int] = {}
        """The resource version of each object that has been seen, also of those left out."""
        self._handlers: list[Handler[AnyObject]] = []
        self._indexes: dict[str, _Index[AnyObject]] = {}
        self._synced = asyncio.Event()
        self._changed = asyncio.Event()
        """Set by each change, for `fresh`, which clears it."""
        self._unseen: set[ObjectKey] = set()
        """After an error: the objects that the new list has not shown yet."""
        self._deletions: list[dict[ObjectKey, int]] = []
        """The resource versions of deletions since a call of `fresh` began; one mapping a call."""
        self._task: asyncio.Task[None] | None = None

    # Set-up, before `start`.

    def add_handler(self, handler: Handler[AnyObject]) -> None:
        """Call a handler for each object that is there, and for each change."""
        self._handlers.append(handler)

    def add_index(self, name: str, values: Values[AnyObject]) -> None:
        """Find objects by values that `values` returns for each; see `by_index`."""
        self._indexes[name] = _Index(values)

    # Life.

    def start(self) -> None:
        """Begin to list and watch."""
        self._task = asyncio.create_task(self._run(), name=f"informer of {self._name}")

    async def stop(self) -> None:
        """End the watch. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def __aenter__(self) -> Informer[AnyObject]:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def wait_synced(self) -> None:
        """Wait until handlers have got all objects of the first list."""
        await self._synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether the informer has all objects."""
        return self._synced.is_set()

    async def fresh(self) -> None:
        """Wait until the informer shows every write that was acknowledged before the call. It lists
        the resource: for tests. Raises StatusError."""
        await self._synced.wait()
        deleted: dict[ObjectKey, int] = {}
        self._deletions.append(deleted)
        try:
            listed = await self._source.trees().list(**self._parameters)
            version = int(listed["metadata"]["resourceVersion"])
            versions = {_key(item): _version(item) for item in listed["items"]}
            while not self._shows(versions, deleted, version):
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._deletions.remove(deleted)

    def _shows(
        self, listed: Mapping[ObjectKey, int], deleted: Mapping[ObjectKey, int], version: int
    ) -> bool:
        """Report whether the objects are those of a list at a version, or newer ones."""
        seen = {**deleted, **self._versions}
        return all(seen.get(key, -1) >= version for key, version in listed.items()) and all(
            known_version > version or key in listed
            for key, known_version in self._versions.items()
        )

    # Reads.

    def get(self, name: str, namespace: str = "") -> AnyObject | None:
        """Return an object, or None."""
        return self._objects.get(ObjectKey(namespace, name))

    def list(self, namespace: str = "") -> Sequence[AnyObject]:
        """Return the objects of a namespace, or all."""
        return [obj for key, obj in self._objects.items() if namespace in ("", key.namespace)]

    def by_index(self, name: str, value: str) -> Sequence[AnyObject]:
        """Return the objects that have a value in an index. Raises KeyError for an unknown
        index."""
        return [self._objects[key] for key in self._indexes[name].get(value)]

    # Watching.

    @property
    def _name(self) -> str:
        return self._source.resource.name

    async def _run(self) -> None:
        while True:
            self._unseen = set(self._versions)
            try:
                trees = self._source.trees()
                events = trees.follow(on_listed=self._on_listed, **self._parameters)
                async with contextlib.aclosing(events):
                    async for event in events:
                        self._take(event)
            except Exception as error:
                _log.warning("informer of %s: %s; trying again", self._name, error)
            await wait(self._clock, RETRY_SECONDS)

    def _on_listed(self) -> None:
        for key in self._unseen:
            self._forget(key, self._versions[key])
        self._unseen = set()
        self._synced.set()
        self._changed.set()

    def _take(self, event: Event) -> None:
        key, version = _key(event.object), _version(event.object)
        self._unseen.discard(key)
        if event.type == "DELETED":
            self._forget(key, version)
        elif self._versions.get(key) != version:
            self._versions[key] = version
            self._set(key, self._read(event.object))
        self._changed.set()

    def _forget(self, key: ObjectKey, version: int) -> None:
        self._versions.pop(key, None)
        for deleted in self._deletions:
            deleted[key] = version
        self._set(key, None)

    def _read(self, tree: Tree) -> AnyObject | None:
        try:
            return self._source.read(tree)
        except msgspec.ValidationError as error:
            _log.warning("%s %s is left out: %s", self._name, _key(tree), error)
            return None

    def _set(self, key: ObjectKey, new: AnyObject | None) -> None:
        old = self._objects.pop(key, None)
        if new is not None:
            self._objects[key] = new
        for index in self._indexes.values():
            index.update(key, new)
        if old is None and new is None:
            return
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:  # an error of one handler must not stop the informer and the others
                _log.exception("a handler of %s failed", self._name)


class _Index(Generic[AnyObject]):
    """The keys of objects, by values that each of them has."""

    def __init__(self, values: Values[AnyObject]) -> None:
        self._values = values
        self._keys: dict[str, dict[ObjectKey, None]] = {}
        self._values_by_key: dict[ObjectKey, tuple[str, ...]] = {}

    def get(self, value: str) -> Iterable[ObjectKey]:
        return self._keys.get(value, ())

    def update(self, key: ObjectKey, new: AnyObject | None) -> None:
        for value in self._values_by_key.pop(key, ()):
            keys = self._keys[value]
            keys.pop(key, None)
            if not keys:
                del self._keys[value]
        if new is None:
            return
        self._values_by_key[key] = values = tuple(dict.fromkeys(self._values(new)))
        for value in values:
            self._keys.setdefault(value, {})[key] = None


def _key(tree: Tree) -> ObjectKey:
    return ObjectKey(namespace_of(tree), name_of(tree))


def _version(tree: Tree) -> int:
    return int(tree["metadata"]["resourceVersion"])
