"""Publish the CA of the server's certificate as a ClusterTrustBundle of the signer
`kubernetes.io/kube-apiserver-serving`.

The name of the bundle has a hash of the CA, so a new CA is a new bundle, and the one of the old CA
is deleted. Mirrors pkg/controller/certificates/clustertrustbundlepublisher.
"""

from __future__ import annotations

import hashlib
import logging

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.certificates.csr_signing import CERTIFICATES
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import create_missing, delete_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

NAME = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
SIGNER = "kubernetes.io/kube-apiserver-serving"
_BUNDLES = "clustertrustbundles"
_VERSIONS = (CERTIFICATES, GroupVersion("certificates.k8s.io", "v1beta1"))

_log = logging.getLogger(__name__)


class TrustBundlePublisher:
    """The control loop; its queue holds the name of the signer."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._ca_text = context.ca_text
        self._subscriptions = Subscriptions(context.server)
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=1, name=NAME)

    async def start(self) -> None:
        """Subscribe to bundles, if there is a CA and if bundles are served."""
        if self._ca_text and self._served_version() is not None:
            self._bundles = self._subscriptions.add(CERTIFICATES, _BUNDLES, self._on_bundle)
            self._queue.add(SIGNER)

    async def stop(self) -> None:
        """Stop, and cancel the reconcile in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _served_version(self) -> GroupVersion | None:
        for version in _VERSIONS:
            try:
                self._context.server.scheme.kind_info(version, _BUNDLES)
            except NotRegistered:
                continue
            return version
        return None

    def _on_bundle(self, change: ObjectChange) -> None:
        if value_at(change.last.tree(), "spec", "signerName") == SIGNER:
            self._queue.add(SIGNER)

    async def _reconcile(self, _signer: str) -> None:
        await self._subscriptions.wait_synced()
        version = self._served_version()
        if version is None:
            return
        bundles = self._context.resource(str(version), _BUNDLES)
        name = _bundle_name(self._ca_text)
        try:
            await self._write(bundles, name)
        except StatusError as error:
            if error.reason != "Invalid":
                raise
            _log.warning("the CA of the server's certificate is not a trust bundle: %s", error)
            return
        for entry in self._bundles.lister.list():
            bundle = entry.tree()
            if value_at(bundle, "spec", "signerName") == SIGNER and name_of(bundle) != name:
                await delete_object(bundles, name_of(bundle), uid=uid_of(bundle))

    async def _write(self, bundles: ResourceClient, name: str) -> None:
        spec: Tree = {"signerName": SIGNER, "trustBundle": self._ca_text}
        current = self._bundles.lister.get(ObjectKey("", name))
        if current is None:
            await create_missing(bundles, {"metadata": {"name": name}, "spec": spec})
        elif current.tree()["spec"] != spec:
            await bundles.update(current.tree() | {"spec": spec})


def _bundle_name(ca_text: str) -> str:
    digest = hashlib.sha256(ca_text.encode()).digest()
    return f"{SIGNER.replace('/', ':')}:{digest[:12].hex()}"
