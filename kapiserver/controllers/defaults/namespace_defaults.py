"""Create the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` of every namespace.

Mirrors kube-controller-manager's serviceaccount and root-ca-cert-publisher controllers.
"""

from __future__ import annotations

import logging

from kapiserver.api.accessors import is_terminating, namespace_of
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

ROOT_CA = "kube-root-ca.crt"
ACCOUNT = "default"
MIN_RESTORE_SECONDS = 10.0
"""Minimum time between two restores in one namespace, so that servers with different CAs over one
store do not overwrite each other for ever."""
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)

_log = logging.getLogger(__name__)


class _NamespaceObjectController:
    """Keeps one object of a fixed name in every namespace; its queue holds namespaces."""

    controller: str
    resource: str
    object_name: str

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._server = context.server
        self._queue: WorkQueue[str] = context.work_queue(
            self._reconcile, workers=1, name=self.controller
        )
        self._subscriptions = Subscriptions(context.server)

    async def start(self) -> None:
        """Subscribe to namespaces and to the objects."""
        self._namespaces = self._subscriptions.add(CORE, "namespaces", self._on_namespace)
        self._objects = self._subscriptions.add(CORE, self.resource, self._on_object)

    async def stop(self) -> None:
        """Stop, and cancel the reconcile in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_namespace(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._queue.add(change.new.key.name)

    def _on_object(self, change: ObjectChange) -> None:
        if change.last.path.endswith(f"/{self.object_name}"):
            self._queue.add(change.last.key.namespace)

    async def _reconcile(self, name: str) -> None:
        await self._subscriptions.wait_synced()
        namespace = self._namespaces.lister.get(ObjectKey("", name))
        if namespace is not None and not is_terminating(namespace.tree()):
            current = self._objects.lister.get(ObjectKey(name, self.object_name))
            await self._ensure(name, current)

    async def _create(self, obj: Tree) -> None:
        objects = self._context.resource("v1", self.resource, namespace=namespace_of(obj))
        # The namespace may be deleted meanwhile.
        with suppress_reason("AlreadyExists", "Forbidden", "NotFound"):
            await objects.create(obj)

    async def _ensure(self, namespace: str, current: Entry | None) -> None:
        """Create or restore the object of an active namespace."""
        raise NotImplementedError


class ServiceAccountsController(_NamespaceObjectController):
    """Creates the ServiceAccount `default`."""

    controller = "serviceaccount-controller"
    resource, object_name = "serviceaccounts", ACCOUNT

    async def _ensure(self, namespace: str, current: Entry | None) -> None:
        if current is None:
            metadata = {"name": ACCOUNT, "namespace": namespace}
            account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}
            await self._create(account)


class RootCAPublisher(_NamespaceObjectController):
    """Creates and restores the ConfigMap `kube-root-ca.crt`; without HTTPS it does nothing."""

    controller = "root-ca-certificate-publisher-controller"
    resource, object_name = "configmaps", ROOT_CA

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca_text = context.ca_text
        self._recently_restored: set[str] = set()

    async def start(self) -> None:
        """Start, if there is a CA to publish."""
        if self._ca_text:
            await super().start()

    async def _ensure(self, namespace: str, current: Entry | None) -> None:
        data = {"ca.crt": self._ca_text}
        if current is None:
            metadata: Tree = {
                "name": ROOT_CA,
                "namespace": namespace,
                "annotations": {"kubernetes.io/description": _DESCRIPTION},
            }
            tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}
            await self._create(tree)
        elif current.tree().get("data") != data:
            await self._restore(namespace, data)

    async def _restore(self, namespace: str, data: Tree) -> None:
        if namespace in self._recently_restored:
            _log.warning(
                "%s in %s was changed again; do the servers of this store share a --cert-dir?",
                ROOT_CA, namespace,
            )  # fmt: skip
            return
        self._recently_restored.add(namespace)
        self._server.clock.call_later(MIN_RESTORE_SECONDS, lambda: self._may_restore(namespace))

        config_maps = self._context.resource("v1", self.resource, namespace=namespace)
        with suppress_reason("NotFound"):  # the controller's role lets it update, but not read
            await config_maps.update_with_retry(ROOT_CA, lambda current: current | {"data": data})

    def _may_restore(self, namespace: str) -> None:
        self._recently_restored.discard(namespace)
        self._queue.add(namespace)
