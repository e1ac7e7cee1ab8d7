"""Delete expired Leases of API servers' identities.

A kube-apiserver holds such a Lease while it runs, so a store that one has used may have some. This
server makes none. Mirrors pkg/controlplane/controller/apiserverleasegc.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.columns import parse_time
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.workqueue import WorkQueue
from kapiserver.controllers.writing import suppress_reason
from kapiserver.storage.clock import Timer

NAME = "kube-apiserver-identity-lease-garbage-collector"
START_DELAY_SECONDS = 60.0
"""The delay after the start; a short-lived server does not need to load Leases."""
POLL_SECONDS = 3600.0
_COORDINATION = GroupVersion("coordination.k8s.io", "v1")
_NAMESPACE = "kube-system"
_SELECTOR = "apiserver.kubernetes.io/identity=kube-apiserver"
_ALL = "all leases"


class APIServerLeaseGC:
    """The control loop; its queue holds one item, a check of all these Leases."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._clock = context.server.clock
        self._resource = context.server.scheme.declared_resource(_COORDINATION, "leases")
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=1, name=NAME)
        self._timer: Timer | None = None

    async def start(self) -> None:
        """Check the Leases after a delay and then periodically."""
        self._timer = self._clock.call_later(START_DELAY_SECONDS, self._check)

    async def stop(self) -> None:
        """Stop, and cancel the check in progress."""
        if self._timer is not None:
            self._timer.cancel()
        await self._queue.stop()

    def _check(self) -> None:
        self._queue.add(_ALL)
        self._timer = self._clock.call_later(POLL_SECONDS, self._check)

    async def _reconcile(self, _item: str) -> None:
        leases = self._context.served_resource(self._resource, namespace=_NAMESPACE)
        if leases is None:
            return
        now = datetime.fromtimestamp(self._clock.now(), UTC)
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
