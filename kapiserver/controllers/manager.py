"""Starts and stops the enabled controllers of one process.

If several servers share a store, each runs some of them, and only the leader runs the others. Of a
server with `--workers`, the first worker does that; the other workers run those whose results each
process needs in its memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER
from kapiserver.controllers.defaults.bootstrap import create_system_namespaces
from kapiserver.controllers.descriptor import ControllerDescriptor, Scope
from kapiserver.controllers.loop.context import ControllerContext, SigningAuthority
from kapiserver.controllers.loop.controller import AnyController
from kapiserver.controllers.loop.leader import LeaderElector, leases_of_controllers
from kapiserver.controllers.loop.shared_metadata import SharedMetadata
from kapiserver.controllers.registry import REGISTRY, enabled_controllers

_AGGREGATION = "clusterrole-aggregation-controller"


class ControllerManager:
    """The controllers of one process; `start` it once, `stop` it once.

    ca_text         PEM of the CA that signs the server's certificate; "" without HTTPS
    signing_ca      the CA of the cluster; None if it has none
    registry        the controllers that there are
    has_policy      whether the store has the bootstrap policy of RBAC already
    is_first_worker whether the process is the only one or the first worker of its server
    """

    def __init__(
        self,
        server: Server,
        *,
        ca_text: str,
        signing_ca: SigningAuthority | None = None,
        registry: Sequence[ControllerDescriptor] = REGISTRY,
        has_policy: bool = False,
        is_first_worker: bool = True,
    ) -> None:
        enabled = enabled_controllers(server.config.controller_manager.controllers, registry)
        self._has_policy = has_policy
        self._aggregates_roles = _AGGREGATION in enabled
        self._is_first_worker = is_first_worker
        self._server = server
        unelected = (Scope.EVERY_PROCESS, Scope.EVERY_SERVER)
        self._unelected, self._on_leader = (
            ControllerGroup(
                server, _select(registry, scopes, enabled), ca_text=ca_text, signing_ca=signing_ca
            )
            for scopes in ((unelected, (Scope.LEADER,)) if is_first_worker else (unelected[:1], ()))
        )
        self._elector: LeaderElector | None = None
        self._others: list[AnyController] = []

    def add(self, controller: AnyController) -> None:
        """Let `settled` ask a controller too that somebody else starts and stops."""
        self._others.append(controller)

    async def start(self) -> None:
        """Create what must exist before the first request, and start the controllers."""
        if self._is_first_worker:
            await create_system_namespaces(self._server)
            if self._server.rbac is not None and not self._has_policy:
                await _reconcile_rbac_policy(self._server, aggregate=self._aggregates_roles)
        await self._unelected.start()
        if not self._server.stores.kv.shared:
            await self._on_leader.start()
        elif self._on_leader.descriptors:
            group = self._on_leader
            leases = leases_of_controllers(self._server)
            clock = self._server.clock
            self._elector = LeaderElector(leases, clock, start=group.start, stop=group.stop)
            self._elector.start()

    @property
    def settled(self) -> bool:
        """Whether no controller that runs on this server has anything left to do at this time of
        its clock."""
        return (
            self._unelected.settled
            and self._on_leader.settled
            and all(controller.settled for controller in self._others)
        )

    @property
    def next_due(self) -> float | None:
        """The time at which a controller of this server next has work that it has put off; None if
        none has. What a controller does at regular intervals does not count."""
        times = (self._unelected.next_due, self._on_leader.next_due)
        return min((time for time in times if time is not None), default=None)

    def end_batches(self) -> bool:
        """Let the controllers do now what they have put off to cover a burst of changes; report
        whether there is something to do."""
        ended = [self._unelected.end_batches(), self._on_leader.end_batches()]
        ended += [controller.queue.end_batches() for controller in self._others]
        return any(ended)

    async def wait_settled(self) -> None:
        """Wait until the controllers are settled. Raises StorageError."""
        while not self.settled:
            await self._unelected.wait_settled()
            await self._on_leader.wait_settled()
            for controller in self._others:
                await controller.wait_settled()

    async def stop(self) -> None:
        """Stop all controllers, and step down as leader."""
        leading = self._elector or self._on_leader
        await asyncio.gather(self._unelected.stop(), leading.stop())


class ControllerGroup:
    """Controllers that start and stop together, as often as needed: each start makes new ones,
    which remember nothing of earlier runs."""

    def __init__(
        self,
        server: Server,
        descriptors: Sequence[ControllerDescriptor],
        *,
        ca_text: str,
        signing_ca: SigningAuthority | None,
    ) -> None:
        self.descriptors = descriptors
        self._server = server
        self._ca_text = ca_text
        self._signing_ca = signing_ca
        self._controllers: list[AnyController] = []
        self._metadata: SharedMetadata | None = None

    async def start(self) -> None:
        """Make the controllers and start them."""
        self._metadata = SharedMetadata(self._server)
        self._controllers = [
            descriptor.factory(
                ControllerContext(
                    name=descriptor.name,
                    server=self._server,
                    metadata=self._metadata,
                    user=descriptor.user,
                    manager=descriptor.manager,
                    ca_text=self._ca_text,
                    signing_ca=self._signing_ca,
                )
            )
            for descriptor in self.descriptors
        ]
        for controller in self._controllers:
            controller.start()
        self._metadata.start()

    @property
    def settled(self) -> bool:
        """Whether the controllers have nothing left to do, or none runs."""
        is_current = self._metadata is None or self._metadata.is_current
        return is_current and all(controller.settled for controller in self._controllers)

    @property
    def next_due(self) -> float | None:
        """The time at which a controller next has work that it has put off; None if none has."""
        times = (controller.queue.next_due for controller in self._controllers)
        return min((time for time in times if time is not None), default=None)

    def end_batches(self) -> bool:
        """Queue what the controllers have put off; report whether there is something."""
        ended = [controller.queue.end_batches() for controller in self._controllers]
        return any(ended)

    async def wait_settled(self) -> None:
        """Wait until each controller has been settled once: it may cause work for another one."""
        if self._metadata is not None:
            await self._metadata.wait_current()
        for controller in self._controllers:
            await controller.wait_settled()

    async def stop(self) -> None:
        """Stop the controllers, cancelling what they are doing."""
        stops = [controller.stop() for controller in self._controllers]
        if self._metadata is not None:
            stops.append(self._metadata.stop())
        await asyncio.gather(*stops)
        self._controllers, self._metadata = [], None


def apiserver_context(server: Server, name: str = "kube-apiserver") -> ControllerContext:
    """Return the context of what the server itself writes, apart from the controllers."""
    return ControllerContext(
        name=name,
        server=server,
        metadata=SharedMetadata(server),
        user=APISERVER,
        manager="kube-apiserver",
    )


async def _reconcile_rbac_policy(server: Server, *, aggregate: bool) -> None:
    from kapiserver.controllers.rbac.bootstrap import reconcile_policy  # not needed without RBAC

    await reconcile_policy(apiserver_context(server), aggregate=aggregate)


def _select(
    registry: Sequence[ControllerDescriptor], scopes: Sequence[Scope], enabled: frozenset[str]
) -> list[ControllerDescriptor]:
    return [
        descriptor
        for descriptor in registry
        if descriptor.scope in scopes and (not descriptor.selectable or descriptor.name in enabled)
    ]
