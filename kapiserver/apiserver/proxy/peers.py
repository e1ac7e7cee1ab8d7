"""Passes a request for a resource that this server does not serve on to a peer that does.

So clients may ask any server of a store while the servers have different releases. A request that a
peer has passed on already is not passed on again. Mirrors peerproxy_handler.go of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import ServiceUnavailable
from kapiserver.apiserver.http_client.errors import HostPort, error_text
from kapiserver.apiserver.peers.connections import PROXIED
from kapiserver.apiserver.peers.metrics import PeerErrorLabels, ReroutedLabels
from kapiserver.apiserver.peers.peer_proxy import PeerProxy
from kapiserver.apiserver.proxy.api_servers import OtherServer, forward_to_api_server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, text_error

_NO_ADDRESS = "Error getting ip and port info of the remote server while proxying"


class _Peer(NamedTuple):
    identity: str
    address: HostPort


def is_for_peer(peers: PeerProxy, request: Request) -> bool:
    """Return whether a request for a resource that this server does not serve goes to a peer."""
    info = request.info
    is_first = request.header(PROXIED) != "true"
    return is_first and bool(peers.that_serve(info.version, info.resource))


async def serve_by_peer(server: Server, request: Request, peers: PeerProxy) -> AnyResponse:
    """Return the response of a peer; 503 if it cannot be reached. Raises ServiceUnavailable if no
    peer has an address, TooManyRequests."""
    group, version = request.info.version
    labels = (group, version, request.info.resource)
    peer = await _choose(peers, request)
    if peer is None:
        server.metrics.peers.errors.add(PeerErrorLabels("endpoint_resolution", *labels))
        raise ServiceUnavailable(_NO_ADDRESS)
    send = functools.partial(peers.connections.send, peer.address)
    destination = OtherServer(peer.identity, send, peers.connections.waiting)
    try:
        response = await forward_to_api_server(server, request, destination, (PROXIED, "true"))
    except (OSError, ValueError) as error:
        text = error_text(error, peer.address)
        response = text_error(f"error trying to reach service: {text}", 503)
    server.metrics.peers.rerouted.add(ReroutedLabels(str(response.status), *labels))
    return response


async def _choose(peers: PeerProxy, request: Request) -> _Peer | None:
    """Return one of the peers that serve the resource and have an address."""
    info = request.info
    identities = list(peers.that_serve(info.version, info.resource))
    random.shuffle(identities)
    for identity in identities:
        address = await peers.leases.find(identity)
        if address is not None:
            return _Peer(identity, address)
    return None
