"""Of several servers over one store, one runs the loops: whoever holds a Lease and renews it.

Mirrors client-go's leaderelection. A server alone over its store is always the one, and writes no
Lease.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kapiserver.api.errors import APIError
from kapiserver.api.group import GroupVersion
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.bootstrap import decoded
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound, ObjectConflict, StorageError

LEASE = ObjectKey("kube-system", "kapiserver-controllers")
LEASE_SECONDS = 15
RENEW_SECONDS = 2.0
GIVE_UP_SECONDS = 10.0
"""Without a renewal for so long, the leader stops, even if it is the store's answer that is not
there yet. It counts from before a renewal was asked for; others count from when they see it."""

_COORDINATION = GroupVersion("coordination.k8s.io", "v1")
_log = logging.getLogger(__name__)

Act = Callable[[], Awaitable[None]]


class Leader:
    """Calls `start` when this server becomes the leader and `stop` when it is so no more."""

    def __init__(self, server: Server, *, start: Act, stop: Act) -> None:
        self._server = server
        self._start = start
        self._stop = stop
        self._identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"
        self._leads = False
        self._renewed = 0.0
        self._observed: tuple[str, float] = ("", 0.0)
        """The version of another's lease, and when it was first seen here: clocks may differ."""
        self._stopping = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to stand for election."""
        self._task = asyncio.create_task(self._run(), name="leader-election")

    async def stop(self) -> None:
        """Step down, so that another need not wait for the lease to end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        if self._leads:
            await self._lose()
            await self._try(self._release, seconds=RENEW_SECONDS)

    async def _run(self) -> None:
        while not self._stopping:
            begun = self._server.clock.now()
            held = await self._try(self._acquire, seconds=self._left())
            if held:
                self._renewed = begun
                if not self._leads:
                    self._leads = True
                    _log.info("%s leads", self._identity)
                    await self._start()
            elif self._leads and (held is False or self._left() <= 0):
                await self._lose()
            self._server.clock.call_later(min(RENEW_SECONDS, self._left()), self._wake.set)
            await self._wake.wait()
            self._wake.clear()

    def _left(self) -> float:
        """Seconds that a leader may go on without a renewal; that others may take for one."""
        if not self._leads:
            return GIVE_UP_SECONDS
        return self._renewed + GIVE_UP_SECONDS - self._server.clock.now()

    async def _lose(self) -> None:
        self._leads = False
        _log.info("%s leads no more", self._identity)
        await self._stop()

    async def _try(self, act: Callable[[], Awaitable[bool]], *, seconds: float) -> bool | None:
        """What became of it; None: the store did not answer, or not in time."""
        if seconds <= 0:
            return None
        attempt = asyncio.ensure_future(act())

        def give_up() -> None:
            attempt.cancel()

        timer = self._server.clock.call_later(seconds, give_up)
        try:
            await asyncio.wait([attempt])
            return attempt.result()
        except (ObjectConflict, AlreadyExists):
            return False
        except (StorageError, APIError) as error:
            _log.info("leader election: %s", error)
            return None
        except asyncio.CancelledError:
            if not attempt.cancelled():
                raise
            _log.info("leader election: the store has not answered in %.1f s", seconds)
            return None
        finally:
            timer.cancel()
            attempt.cancel()

    async def _acquire(self) -> bool:
        """Take the lease where it is free, or renew it. Raises StorageError."""
        store = self._server.stores.named(_COORDINATION, "leases")
        now = self._server.clock.now()
        try:
            lease = (await store.get(LEASE)).tree()
        except NotFound:
            spec = self._spec({}, now)
            tree = {
                "kind": "Lease",
                "apiVersion": str(_COORDINATION),
                "metadata": {"name": LEASE.name, "namespace": LEASE.namespace},
                "spec": spec,
            }
            await store.create(decoded(self._server, tree), namespace=LEASE.namespace)
            return True
        holder = value_at(lease, "spec", "holderIdentity") or ""
        version = lease["metadata"]["resourceVersion"]
        if version != self._observed[0]:
            self._observed = (version, now)
        ends = self._observed[1] + (value_at(lease, "spec", "leaseDurationSeconds") or 0)
        if holder not in ("", self._identity) and now < ends:
            return False

        def take(current: Tree | None) -> Tree:
            assert current is not None
            if current["metadata"]["resourceVersion"] != version:
                raise ObjectConflict(resource="leases", group=_COORDINATION.group, name=LEASE.name)
            return current | {"spec": self._spec(current.get("spec") or {}, now)}

        await store.update(LEASE, take)
        return True

    async def _release(self) -> bool:
        store = self._server.stores.named(_COORDINATION, "leases")

        def release(current: Tree | None) -> Tree:
            assert current is not None
            spec = dict(current.get("spec") or {})
            if spec.get("holderIdentity") == self._identity:
                spec |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            return current | {"spec": spec}

        await store.update(LEASE, release)
        return True

    def _spec(self, before: Tree, now: float) -> Tree:
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = before.get("holderIdentity") == self._identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": before.get("acquireTime") if mine else moment,
            "renewTime": moment,
            "leaseTransitions": transitions if mine or not before else transitions + 1,
        }
