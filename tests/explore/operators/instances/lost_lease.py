"""A leader that was paused writes what it had decided before its Lease passed on.

A Lease keeps two instances apart only as long as nobody sleeps: a process that is paused longer
than its Lease lasts goes on in the middle of its reconciliation, as if no time had passed (the
fencing problem of all locks). The second instance has written the newer state meanwhile, and the
first one overwrites it. The corrected twin writes with the resourceVersion that it has read.
"""

import asyncio
import time
import uuid

from tests.explore.operators.kube import (
    CONFIG_MAPS,
    DATABASES,
    LEASES,
    ApiError,
    Operator,
    child,
    is_deleting,
    main,
)

LEASE_SECONDS = 1
RENEW_SECONDS = 0.2


class Leader(Operator):
    _lease_seen = ("", 0.0)
    """The resourceVersion of the Lease, and when it was seen first."""

    async def run(self) -> None:
        self._identity = uuid.uuid4().hex
        work = None
        while True:
            is_leader = await self._acquire()
            if is_leader and work is None:
                work = asyncio.create_task(super().run())
            elif not is_leader and work is not None:
                work.cancel()
                work = None
            await asyncio.sleep(RENEW_SECONDS)

    async def _acquire(self) -> bool:
        """Take or renew the Lease; report whether this instance leads."""
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": LEASE_SECONDS}
        try:
            lease = await self.client.get_or_none(LEASES, "operator")
            if lease is None:
                await self.client.create(LEASES, {"metadata": {"name": "operator"}, "spec": spec})
                return True
            if lease["spec"]["holderIdentity"] != self._identity and not self._is_expired(lease):
                return False
            renewals = lease["spec"].get("leaseTransitions", 0) + 1
            await self.client.update(
                LEASES, lease | {"spec": spec | {"leaseTransitions": renewals}}
            )
            return True
        except ApiError:
            return False

    def _is_expired(self, lease: dict) -> bool:
        version = lease["metadata"]["resourceVersion"]
        if version != self._lease_seen[0]:
            self._lease_seen = (version, time.monotonic())
        return time.monotonic() - self._lease_seen[1] > LEASE_SECONDS

    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        data = {"storage": database["spec"]["storage"]}
        stored = await self.client.get_or_none(CONFIG_MAPS, f"{name}-settings")
        if stored is None:
            await self.client.create(CONFIG_MAPS, child(database, f"{name}-settings", data=data))
        elif stored["data"] != data:
            patch = {"data": data}
            if self.repaired:
                patch["metadata"] = {"resourceVersion": stored["metadata"]["resourceVersion"]}
            await self.client.patch(CONFIG_MAPS, f"{name}-settings", patch)


if __name__ == "__main__":
    main(Leader)
