"""Delete expired Leases of API servers' identities.

A server holds such a Lease while it runs (`endpoints/apiserver_identity.py`); one that was killed
leaves it. Mirrors pkg/controlplane/controller/apiserverleasegc.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.columns import parse_time
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.identity import COMPONENT, IDENTITY_LABEL, LEASE_NAMESPACE
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import suppress_reason

START_DELAY_SECONDS = 60.0
"""The delay after the start; a short-lived server does not need to load Leases."""
POLL_SECONDS = 3600.0
_ALL = "all leases"
_COORDINATION = GroupVersion("coordination.k8s.io", "v1")
_SELECTOR = f"{IDENTITY_LABEL}={COMPONENT}"


class APIServerLeaseGC(Controller[str]):
    """The control loop; its queue holds `_ALL`."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._resource = context.server.scheme.declared_resource(_COORDINATION, "leases")

    def set_up(self) -> None:
        """Check the Leases after a delay and then periodically."""
        self.resync(POLL_SECONDS, lambda: [_ALL], delay=START_DELAY_SECONDS)

    async def reconcile(self, _all: str) -> None:
        """Delete the expired Leases."""
        leases = self.context.served_resource(self._resource, namespace=LEASE_NAMESPACE)
        if leases is None:
            return
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        for lease in (await leases.list(labelSelector=_SELECTOR))["items"]:
            if is_expired(lease, now):
                # The resourceVersion keeps a Lease that is renewed meanwhile.
                version = lease["metadata"]["resourceVersion"]
                preconditions = {"uid": uid_of(lease), "resourceVersion": version}
                with suppress_reason("NotFound", "Conflict"):
                    await leases.delete(name_of(lease), {"preconditions": preconditions})


def is_expired(lease: Tree, now: datetime) -> bool:
    """Return whether a Lease has expired, or lacks the fields that every API server sets."""
    renewed = parse_time(value_at(lease, "spec", "renewTime"))
    seconds = value_at(lease, "spec", "leaseDurationSeconds")
    return renewed is None or seconds is None or now - renewed > timedelta(seconds=seconds)
