"""Keeps the Lease that says that this server runs.

`kubectl get leases -n kube-system -l apiserver.kubernetes.io/identity=kube-apiserver` lists the
servers of a store. A server that stops deletes its Lease; that of one that was killed expires after
an hour, and `deletion/apiserver_lease_gc.py` deletes it. Only servers that share their store with
others have one: an embedded store has one server. Mirrors lease/controller.go of
k8s.io/component-helpers, as pkg/controlplane/apiserver uses it.
"""

from __future__ import annotations

import platform
import uuid
from datetime import UTC, datetime

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.apiserver.identity import COMPONENT, IDENTITY_LABEL, LEASE_NAMESPACE
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import delete_object

LEASE_SECONDS = 3600
RENEW_SECONDS = 10.0
_VERSION = "coordination.k8s.io/v1"
_INSTANCE = uuid.uuid4()
"""The same in all worker processes, which keep one Lease: peers notice a restart by it."""
_ADDRESS = "kubernetes.io/peer-advertise-address"


class APIServerIdentity(Controller[str]):
    """The control loop; its queue holds the name of the Lease, which is the server's identity.

    address     where peers reach the server; None if they do not pass requests on
    """

    def __init__(self, context: ControllerContext, name: str, address: HostPort | None) -> None:
        super().__init__(context)
        self._name = name
        self._address = address
        self._holder = f"{self._name}_{_INSTANCE}"
        self._leases = context.resource(_VERSION, "leases", namespace=LEASE_NAMESPACE)

    def set_up(self) -> None:
        """Renew the Lease now and periodically."""
        self.resync(RENEW_SECONDS, lambda: [self._name])

    async def reconcile(self, name: str) -> None:
        """Renew the Lease, or create it. An earlier server of the name loses it."""
        try:
            lease = await self._leases.get(name)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            await self._leases.create(self._renewed({"metadata": {"name": name}}))
            return
        await self._leases.update(self._renewed(lease))

    async def stop(self) -> None:
        """Stop, and delete the Lease unless another process has it now."""
        await super().stop()
        try:
            lease = await self._leases.get(self._name)
            if lease["spec"].get("holderIdentity") == self._holder:
                await delete_object(self._leases, self._name, uid=lease["metadata"]["uid"])
        except StatusError:  # it expires
            return

    def _renewed(self, lease: Tree) -> Tree:
        metadata = lease["metadata"]
        labels = {
            **(metadata.get("labels") or {}),
            IDENTITY_LABEL: COMPONENT,
            "kubernetes.io/hostname": platform.node(),
        }
        annotations = dict(metadata.get("annotations") or {})
        if self._address is not None:
            annotations[_ADDRESS] = str(self._address)
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        spec = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        metadata = {**metadata, "labels": labels}
        if annotations:
            metadata["annotations"] = annotations
        return {**lease, "metadata": metadata, "spec": spec}
