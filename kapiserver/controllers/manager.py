"""Starts and stops the enabled controllers of one server.

Some run on every server. Of several servers over one store, only the leader runs the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kapiserver.apiserver.authentication.user import APISERVER
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.serving.tls_settings import Pair
from kapiserver.controllers.bootstrap import create_system_namespaces
from kapiserver.controllers.context import Controller, ControllerContext
from kapiserver.controllers.leader import LeaderElector
from kapiserver.controllers.registry import (
    REGISTRY,
    ControllerDescriptor,
    Scope,
    enabled_controllers,
)
from kapiserver.controllers.shared_metadata import SharedMetadata


class ControllerManager:
    """The controllers of one server; `start` it once, `stop` it once.

    ca_text     PEM of the CA that signs the server's certificate; "" without HTTPS
    signing_ca  files of the server's own CA; None without HTTPS
    registry    of the controllers that there are
    """

    def __init__(
        self,
        server: Server,
        *,
        ca_text: str,
        signing_ca: Pair | None = None,
        registry: Sequence[ControllerDescriptor] = REGISTRY,
    ) -> None:
        enabled = enabled_controllers(server.config.controllers, registry)
        self._server = server
        self._on_every_server, self._on_leader = (
            ControllerGroup(
                server, _select(registry, scope, enabled), ca_text=ca_text, signing_ca=signing_ca
            )
            for scope in (Scope.EVERY_SERVER, Scope.LEADER)
        )
        self._elector: LeaderElector | None = None

    async def start(self) -> None:
        """Create what must exist before the first request, and start the controllers."""
        await create_system_namespaces(self._server)
        if self._server.rbac is not None:
            await _reconcile_rbac_policy(self._server)
        await self._on_every_server.start()
        if not self._server.stores.kv.shared:
            await self._on_leader.start()
        elif self._on_leader.descriptors:
            group = self._on_leader
            self._elector = LeaderElector(self._server, start=group.start, stop=group.stop)
            self._elector.start()

    async def stop(self) -> None:
        """Stop all controllers, and step down as leader."""
        await self._on_every_server.stop()
        if self._elector is not None:
            await self._elector.stop()
        else:
            await self._on_leader.stop()


class ControllerGroup:
    """Controllers that start and stop together, as often as needed: each start makes new ones,
    which remember nothing of earlier runs."""

    def __init__(
        self,
        server: Server,
        descriptors: Sequence[ControllerDescriptor],
        *,
        ca_text: str,
        signing_ca: Pair | None,
    ) -> None:
        self.descriptors = descriptors
        self._server = server
        self._ca_text = ca_text
        self._signing_ca = signing_ca
        self._controllers: list[Controller] = []
        self._metadata: SharedMetadata | None = None

    async def start(self) -> None:
        """Make the controllers and start them."""
        self._metadata = SharedMetadata(self._server)
        self._controllers = [
            descriptor.factory(
                ControllerContext(
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
            await controller.start()
        self._metadata.start()

    async def stop(self) -> None:
        """Stop the controllers, cancelling what they are doing."""
        if self._metadata is not None:
            await self._metadata.stop()
        await asyncio.gather(*(controller.stop() for controller in self._controllers))


def apiserver_context(server: Server) -> ControllerContext:
    """Return the context of what the server itself writes, apart from the controllers."""
    return ControllerContext(
        server=server, metadata=SharedMetadata(server), user=APISERVER, manager="kube-apiserver"
    )


async def _reconcile_rbac_policy(server: Server) -> None:
    from kapiserver.controllers.rbac_bootstrap import reconcile_policy  # not needed without RBAC

    await reconcile_policy(apiserver_context(server))


def _select(
    registry: Sequence[ControllerDescriptor], scope: Scope, enabled: frozenset[str]
) -> list[ControllerDescriptor]:
    return [
        descriptor
        for descriptor in registry
        if descriptor.scope is scope and (not descriptor.selectable or descriptor.name in enabled)
    ]
