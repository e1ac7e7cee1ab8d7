"""Leader election: of several processes, the holder of a Lease runs the controllers.

Mirrors client-go's leaderelection. A server that does not share its store needs none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.user import AUTHENTICATED, User
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.apiserver.context import Server

LEASE = ObjectKey("kube-system", "kapiserver-controllers")
LEASE_SECONDS = 15
RENEW_SECONDS = 2.0
RENEW_DEADLINE_SECONDS = 10.0
"""A leader that could not renew for this long stops, even while a renewal is still in flight. It
counts from before the renewal was sent; the others count from when they observe it."""

USER = User(name="system:kube-controller-manager", groups=(AUTHENTICATED,))
USER_AGENT = "kube-controller-manager"

COORDINATION = "coordination.k8s.io/v1"
"""The group and version of leases."""
_log = logging.getLogger(__name__)

Callback = Callable[[], Awaitable[None]]


def leases_of_controllers(server: Server) -> ResourceClient:
    """Return the leases among which the one of the controllers of servers is."""
    client = server.client(USER, user_agent=USER_AGENT, authorize=False)
    return client.resource(COORDINATION, "leases", namespace=LEASE.namespace)


class LeaderElector:
    """Calls `start` when this process becomes the leader and `stop` when it loses leadership.

    leases  a client of the leases in a namespace; the leader holds the one of that name
    """

    def __init__(
        self,
        leases: ResourceClient,
        clock: Clock,
        *,
        name: str = LEASE.name,
        start: Callback,
        stop: Callback,
    ) -> None:
        self._leases = leases
        self._clock = clock
        self._name = name
        self._start = start
        self._stop = stop
        self._identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"
        self._is_leader = False
        self._renewed = 0.0
        self._observed: tuple[str, float] = ("", 0.0)
        """The version of another server's lease, and the local time when it was first observed; the
        clocks of servers may differ."""
        self._stopping = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to acquire and renew the lease."""
        self._task = asyncio.create_task(self._run(), name="leader-election")

    async def stop(self) -> None:
        """Stop leading and release the lease, so that another need not wait for it to expire."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        if self._is_leader:
            await self._stop_leading()
            await self._attempt(self._release, seconds=RENEW_SECONDS)

    async def _run(self) -> None:
        while not self._stopping:
            attempt_time = self._clock.now()
            has_lease = await self._attempt(self._acquire, seconds=self._remaining_seconds())
            if has_lease:
                self._renewed = attempt_time
                if not self._is_leader:
                    self._is_leader = True
                    _log.info("%s became leader of %s", self._identity, self._name)
                    await self._start()
            elif self._is_leader and (has_lease is False or self._remaining_seconds() <= 0):
                await self._stop_leading()
            self._clock.call_later(min(RENEW_SECONDS, self._remaining_seconds()), self._wake.set)
            await self._wake.wait()
            self._wake.clear()

    def _remaining_seconds(self) -> float:
        """Return how long a leader may still lead without a renewal; for others, how long an
        attempt to acquire may take."""
        if not self._is_leader:
            return RENEW_DEADLINE_SECONDS
        return self._renewed + RENEW_DEADLINE_SECONDS - self._clock.now()

    async def _stop_leading(self) -> None:
        self._is_leader = False
        _log.info("%s lost leadership of %s", self._identity, self._name)
        await self._stop()

    async def _attempt(self, act: Callable[[], Awaitable[bool]], *, seconds: float) -> bool | None:
        """Return the result of `act`, False after a conflict, or None if it failed or the store
        did not respond in time."""
        if seconds <= 0:
            return None
        attempt = asyncio.ensure_future(act())

        def give_up() -> None:
            attempt.cancel()

        timer = self._clock.call_later(seconds, give_up)
        try:
            await asyncio.wait([attempt])
            return attempt.result()
        except asyncio.CancelledError:
            if not attempt.cancelled():
                raise
            _log.info("leader election: no response from the store within %.1f s", seconds)
            return None
        except Exception as error:  # no error may end the renewals of a leader
            if isinstance(error, StatusError) and error.reason in ("Conflict", "AlreadyExists"):
                return False
            _log.info("leader election: %s", error)
            return None
        finally:
            timer.cancel()
            attempt.cancel()

    async def _acquire(self) -> bool:
        """Acquire the lease if it is free, or renew it. Raises StatusError."""
        now = self._clock.now()
        try:
            lease = await self._leases.get(self._name)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            metadata = {"name": self._name, "namespace": self._leases.namespace}
            await self._leases.create({"metadata": metadata, "spec": self._spec({}, now)})
            return True
        spec: Tree = lease.get("spec") or {}
        version = lease["metadata"]["resourceVersion"]
        if version != self._observed[0]:
            self._observed = (version, now)
        ends = self._observed[1] + (spec.get("leaseDurationSeconds") or 0)
        if spec.get("holderIdentity") not in (None, "", self._identity) and now < ends:
            return False
        await self._leases.update(lease | {"spec": self._spec(spec, now)})
        return True

    async def _release(self) -> bool:
        lease = await self._leases.get(self._name)
        spec: Tree = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._identity:
            return False
        released = spec | {"holderIdentity": "", "leaseDurationSeconds": 1}
        await self._leases.update(lease | {"spec": released})
        return True

    def _spec(self, before: Tree, now: float) -> Tree:
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_holder = before.get("holderIdentity") == self._identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": before.get("acquireTime") if is_holder else moment,
            "renewTime": moment,
            "leaseTransitions": transitions if is_holder or not before else transitions + 1,
        }
