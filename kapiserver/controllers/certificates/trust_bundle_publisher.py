"""Publish the CA of the server's certificate as a ClusterTrustBundle of the signer
`kubernetes.io/kube-apiserver-serving`.

The name of the bundle has a hash of the CA, so a new CA is a new bundle, and the one of the old CA
is deleted. Mirrors pkg/controller/certificates/clustertrustbundlepublisher.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.certificates.csr_signing import CERTIFICATES
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing, delete_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

SIGNER = "kubernetes.io/kube-apiserver-serving"
_BUNDLES = "clustertrustbundles"
_VERSIONS = (CERTIFICATES, GroupVersion("certificates.k8s.io", "v1beta1"))

_log = logging.getLogger(__name__)


class TrustBundlePublisher(Controller[str]):
    """The control loop; its queue holds the name of the signer."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca_text = context.ca_text

    def set_up(self) -> None:
        """Watch bundles, if there is a CA and if bundles are served."""
        if self._ca_text and self._served_version() is not None:
            self._bundles = self.watch(CERTIFICATES, _BUNDLES, _for_bundle)
            self.queue.add(SIGNER)

    def _served_version(self) -> GroupVersion | None:
        for version in _VERSIONS:
            try:
                self.server.scheme.kind_info(version, _BUNDLES)
            except NotRegistered:
                continue
            return version
        return None

    async def reconcile(self, _signer: str) -> None:
        """Write the bundle of the CA, and delete those of other CAs."""
        version = self._served_version()
        if version is None:
            return
        bundles = self.context.resource(str(version), _BUNDLES)
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


def _for_bundle(change: ObjectChange) -> Iterable[str]:
    return (SIGNER,) if value_at(change.last.tree(), "spec", "signerName") == SIGNER else ()


def _bundle_name(ca_text: str) -> str:
    digest = hashlib.sha256(ca_text.encode()).digest()
    return f"{SIGNER.replace('/', ':')}:{digest[:12].hex()}"
