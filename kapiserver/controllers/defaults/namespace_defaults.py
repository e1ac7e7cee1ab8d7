"""Create the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` of every namespace.

Mirrors kube-controller-manager's serviceaccount and root-ca-cert-publisher controllers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kapiserver.api.accessors import is_terminating, namespace_of
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
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


class _NamespaceObjectController(Controller[str]):
    """Keeps one object of a fixed name in every namespace; its queue holds names of namespaces."""

    resource: str
    object_name: str

    def set_up(self) -> None:
        """Watch namespaces and the objects."""
        self._namespaces = self.watch(CORE, "namespaces", lambda change: (change.last.key.name,))
        self._objects = self.watch(CORE, self.resource, self._namespace_of)

    def _namespace_of(self, change: ObjectChange) -> Iterable[str]:
        is_ours = change.last.path.endswith(f"/{self.object_name}")
        return (change.last.key.namespace,) if is_ours else ()

    async def reconcile(self, name: str) -> None:
        """Create or restore the object of an active namespace."""
        namespace = self._namespaces.lister.get(ObjectKey("", name))
        if namespace is not None and not is_terminating(namespace.tree()):
            current = self._objects.lister.get(ObjectKey(name, self.object_name))
            await self._ensure(name, current)

    async def _create(self, obj: Tree) -> None:
        objects = self.context.resource("v1", self.resource, namespace=namespace_of(obj))
        # The namespace may be deleted meanwhile.
        with suppress_reason("AlreadyExists", "Forbidden", "NotFound"):
            await objects.create(obj)

    async def _ensure(self, namespace: str, current: Entry | None) -> None:
        """Create or restore the object of an active namespace."""
        raise NotImplementedError


class ServiceAccountsController(_NamespaceObjectController):
    """Creates the ServiceAccount `default`."""

    resource, object_name = "serviceaccounts", ACCOUNT

    async def _ensure(self, namespace: str, current: Entry | None) -> None:
        if current is None:
            metadata = {"name": ACCOUNT, "namespace": namespace}
            account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}
            await self._create(account)


class RootCAPublisher(_NamespaceObjectController):
    """Creates and restores the ConfigMap `kube-root-ca.crt`; without HTTPS it does nothing."""

    resource, object_name = "configmaps", ROOT_CA

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca_text = context.ca_text
        self._restored: dict[str, float] = {}
        """The times of the last restores, by namespace."""

    def set_up(self) -> None:
        """Watch, if there is a CA to publish."""
        if self._ca_text:
            super().set_up()

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
        now = self.clock.now()
        restored = {
            name: at for name, at in self._restored.items() if at > now - MIN_RESTORE_SECONDS
        }
        self._restored = restored
        if namespace in restored:
            _log.warning(
                "%s in %s was changed again; do the servers of this store share a --cert-dir?",
                ROOT_CA, namespace,
            )  # fmt: skip
            self.queue.add_after(namespace, restored[namespace] + MIN_RESTORE_SECONDS - now)
            return
        restored[namespace] = now
        config_maps = self.context.resource("v1", self.resource, namespace=namespace)
        with suppress_reason("NotFound"):  # the controller's role lets it update, but not read
            await config_maps.update_with_retry(ROOT_CA, lambda current: current | {"data": data})
