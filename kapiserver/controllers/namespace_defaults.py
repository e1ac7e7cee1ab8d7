"""Create the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` of every namespace.

Mirrors kube-controller-manager's serviceaccount and root-ca-cert-publisher controllers.
"""

from __future__ import annotations

import asyncio
import logging

from kapiserver.api.accessors import is_terminating
from kapiserver.api.group import CORE
from kapiserver.api.selectors import parse
from kapiserver.api.types import Tree
from kapiserver.controllers.bootstrap import create
from kapiserver.controllers.context import ControllerContext
from kapiserver.storage.clock import Timer
from kapiserver.storage.entry import Entry, ObjectKey
from kapiserver.storage.errors import Corrupt, NotFound, StorageError, Unavailable
from kapiserver.storage.kv import Revision
from kapiserver.storage.object_store import ResourceStore
from kapiserver.storage.query import EventType, WatchQuery
from kapiserver.storage.watch_fanout import Watching

ROOT_CA = "kube-root-ca.crt"
ACCOUNT = "default"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)
_RETRY_SECONDS = 1.0
REST_SECONDS = 10.0
"""Minimum time between two restores in one namespace, so that servers with different CAs over one
store do not overwrite each other for ever."""

_log = logging.getLogger(__name__)


class _NamespaceNames:
    """Frames that say which namespace an event is about."""

    identity = "namespace names"

    def event(self, kind: EventType, entry: Entry) -> bytes:
        key = entry.key
        return f"{key.namespace or key.name}\n".encode()

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        return b""

    def error(self, error: Exception) -> bytes:
        return b""


class _Inbox:
    """Takes the frames of one watch; begins the watch again when it ends."""

    def __init__(self, controller: _NamespaceDefaults, resource: str, selector: str) -> None:
        self._controller = controller
        self.resource = resource
        self.selector = selector

    def write(self, frames: bytes) -> None:
        self._controller.look_at(frames.decode().split())

    def backlog(self) -> int:
        return 0

    async def drained(self) -> None:
        pass

    def close(self) -> None:
        self._controller.watch_again(self)


class _NamespaceDefaults:
    """The control loop of both: one object in each namespace.

    resource, name      of the object
    """

    resource: str
    name: str

    def __init__(self, context: ControllerContext) -> None:
        self._server = context.server
        self._due: dict[str, None] = {}
        self._inboxes: dict[_Inbox, None] = {
            _Inbox(self, resource, selector): None
            for resource, selector in (
                ("namespaces", ""),
                (self.resource, f"metadata.name={self.name}"),
            )
        }
        self._unwatched: list[_Inbox] = list(self._inboxes)
        self._watches: dict[_Inbox, Watching] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin the watches; the work is done in a task of its own."""
        try:
            await self._watch()
        except Unavailable as error:  # slow just now: no reason not to start
            _log.warning("defaults of namespaces: %s; retrying", error)
            self._wake.set()
        self._task = asyncio.create_task(self._run(), name="namespace-defaults")

    async def stop(self) -> None:
        """End the watches and the task, what it is in the middle of included."""
        self._stopping = True
        self._wake.set()
        for watching in self._watches.values():
            watching.cancel()
        if self._task is not None:
            await self._task

    def look_at(self, namespaces: list[str]) -> None:
        """Something happened there."""
        self._due.update(dict.fromkeys(namespaces))
        self._wake.set()

    def watch_again(self, inbox: _Inbox) -> None:
        """A watch ended by itself; it is begun again soon, not at once: it may end at once too."""
        self._watches.pop(inbox, None)
        self._unwatched.append(inbox)
        self._server.clock.call_later(_RETRY_SECONDS, self._wake.set)

    async def _run(self) -> None:
        timer: Timer | None = None
        while True:
            await self._wake.wait()
            self._wake.clear()
            if timer is not None:  # or there would be one more for whatever happens meanwhile
                timer.cancel()
            if self._stopping:
                return
            try:
                await self._watch()
                await self._complete_due()
            except Exception as error:
                _log.warning("defaults of namespaces: %s; retrying", error)
                timer = self._server.clock.call_later(_RETRY_SECONDS, self._wake.set)

    async def _complete_due(self) -> None:
        """Complete each namespace that is due, those behind one that cannot be read too."""
        unread: Corrupt | None = None
        for namespace in tuple(self._due):
            if self._stopping:
                return
            del self._due[namespace]  # before: what happens meanwhile makes it due again
            try:
                await self._complete(namespace)
            except Corrupt as error:
                self._due[namespace] = None
                unread = error
            except BaseException:
                self._due[namespace] = None
                raise
        if unread is not None:
            raise unread

    async def _watch(self) -> None:
        while self._unwatched:
            inbox = self._unwatched[-1]
            resource = self._server.scheme.declared_resource(CORE, inbox.resource)
            query = WatchQuery(
                framer=_NamespaceNames(), selection=parse("", inbox.selector, resource)
            )
            self._watches[inbox] = await self._store(inbox.resource).watch(query, inbox)
            self._unwatched.remove(inbox)

    def _store(self, resource: str) -> ResourceStore:
        return self._server.stores.named(CORE, resource)

    async def _complete(self, name: str) -> None:
        """Create what the namespace lacks; one that is gone or going needs nothing."""
        try:
            namespace = await self._store("namespaces").get(ObjectKey("", name))
        except NotFound:
            return
        if is_terminating(namespace.tree()):
            return
        await self._ensure(name)

    async def _ensure(self, namespace: str) -> None:
        """Create or restore the object of an active namespace."""
        raise NotImplementedError


class ServiceAccountsController(_NamespaceDefaults):
    """Creates the ServiceAccount `default`."""

    resource, name = "serviceaccounts", ACCOUNT

    async def _ensure(self, namespace: str) -> None:
        metadata = _metadata(namespace, ACCOUNT)
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}
        await create(self._server, "serviceaccounts", account)


class RootCAPublisher(_NamespaceDefaults):
    """Creates and restores the ConfigMap `kube-root-ca.crt`; without HTTPS it does nothing."""

    resource, name = "configmaps", ROOT_CA

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca_text = context.ca_text
        self._resting: set[str] = set()

    async def start(self) -> None:
        """Start, where there is a CA to publish."""
        if self._ca_text:
            await super().start()

    async def _ensure(self, namespace: str) -> None:
        wanted = {"ca.crt": self._ca_text}
        store = self._store("configmaps")
        key = ObjectKey(namespace, ROOT_CA)
        try:
            found = await store.get(key)
        except NotFound:
            metadata = _metadata(namespace, ROOT_CA)
            metadata["annotations"] = {"kubernetes.io/description": _DESCRIPTION}
            tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": wanted}
            await create(self._server, "configmaps", tree)
            return
        if found.tree().get("data") == wanted:
            return
        if namespace in self._resting:
            _log.warning(
                "%s in %s was changed again; do the servers of this store share a --cert-dir?",
                ROOT_CA, namespace,
            )  # fmt: skip
            return
        self._resting.add(namespace)
        self._server.clock.call_later(REST_SECONDS, lambda: self._rested(namespace))

        def restore(current: Tree | None) -> Tree:
            assert current is not None
            return current | {"data": wanted}

        try:
            await store.update(key, restore)
        except StorageError as error:
            _log.info("%s in %s was not restored: %s", ROOT_CA, namespace, error)

    def _rested(self, namespace: str) -> None:
        self._resting.discard(namespace)
        self.look_at([namespace])


def _metadata(namespace: str, name: str) -> Tree:
    return {"name": name, "namespace": namespace}
