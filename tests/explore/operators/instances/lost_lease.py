"""A leader that was paused writes what it had decided before its Lease passed on.

A Lease keeps two instances apart only as long as nobody sleeps: a process that is paused longer
than its Lease lasts goes on in the middle of its reconciliation, as if no time had passed (the
fencing problem of all locks). The second instance has created the Job meanwhile, and the first one
creates another one. The corrected twin gives the Job a name that only one of them can take.
"""

import asyncio
import uuid

from tests.explore.operators.kube import (
    DATABASES,
    JOBS,
    LEASES,
    ApiError,
    Operator,
    child,
    is_deleting,
    main,
)

LEASE_SECONDS = 1
RENEW_SECONDS = 0.2
CONTAINER = {"name": "initialize", "image": "database:1"}


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
        version, now = lease["metadata"]["resourceVersion"], asyncio.get_running_loop().time()
        if version != self._lease_seen[0]:
            self._lease_seen = (version, now)
        return now - self._lease_seen[1] > LEASE_SECONDS

    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        if await self.client.list(JOBS, labelSelector=f"database={name}"):
            return
        template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
        job = child(database, f"{name}-initialize", spec={"template": template})
        if self.repaired:
            await self.client.create_if_missing(JOBS, job)
            return
        job["metadata"]["generateName"] = job["metadata"].pop("name") + "-"
        await self.client.create(JOBS, job)


if __name__ == "__main__":
    main(Leader)
