"""Tells the other servers of a store where this one is reached.

The address expires with its lease, so that nobody asks a server that died. Mirrors
PeerEndpointLeaseController of k8s.io/apiserver.
"""

from __future__ import annotations

import logging

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.apiserver.peers.peer_leases import PeerLeases
from kapiserver.apiserver.serving.server import ALL_ADDRESSES, LOOPBACK
from kapiserver.controllers.endpoints.kubernetes_service import reached_at
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.storage.errors import StorageError

RENEW_SECONDS = 10.0

_log = logging.getLogger(__name__)


class PeerLease(Controller[str]):
    """The control loop; its queue holds the identity of the server."""

    max_retry_seconds = 1.0  # the lease ends soon

    def __init__(self, context: ControllerContext, own_id: str, address: HostPort) -> None:
        super().__init__(context)
        self._own_id = own_id
        self._address = address
        server = context.server
        root = server.config.store.key_root
        self._leases = PeerLeases(server.stores.kv, server.codecs, root)

    def set_up(self) -> None:
        """Renew the lease now and periodically."""
        self.resync(RENEW_SECONDS, lambda: [self._own_id])

    async def reconcile(self, own_id: str) -> None:
        """Renew the lease."""
        await self._leases.renew(own_id, self._address)

    async def stop(self) -> None:
        """Complete the write in progress, stop, and remove the address."""
        await self.queue.wait_idle()
        await super().stop()
        try:
            await self._leases.remove(self._own_id)
        except StorageError as error:
            _log.info("peers find this server until its lease expires: %s", error)


def peer_address(config: Config, port: int) -> HostPort:
    """Return where peers reach a server with that secure port."""
    peers, bind_address = config.peers, config.serving.bind_address
    if peers.peer_advertise_ip and peers.peer_advertise_port:
        return HostPort(peers.peer_advertise_ip, peers.peer_advertise_port)
    if bind_address in ALL_ADDRESSES:
        return HostPort(reached_at(bind_address) or LOOPBACK, port)
    return HostPort(bind_address, port)
