"""The peers of one server: what they serve, where they are reached, and the connections to them.

`controllers/endpoints/peer_discovery.py` finds out what they serve, and `proxy/peers.py` passes
requests on to them. A server has a PeerProxy only with `--peer-ca-file`. Mirrors util/peerproxy of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.peers.connections import PeerConnections
from kapiserver.apiserver.peers.merged_groups import merge_groups
from kapiserver.apiserver.peers.metrics import PeerMetrics
from kapiserver.apiserver.peers.peer_leases import PeerLeases
from kapiserver.apiserver.peers.peer_resources import PeerResources


class PeerProxy:
    """The peers by their identities.

    own_id  the identity of this server; "" before it listens
    served  what each peer serves, and this server perhaps does not
    """

    def __init__(
        self, connections: PeerConnections, leases: PeerLeases, metrics: PeerMetrics
    ) -> None:
        self.connections = connections
        self.leases = leases
        self.own_id = ""
        self.served: Mapping[str, PeerResources] = {}
        self._metrics = metrics
        self._merged: _Merged | None = None

    def replace(self, own_id: str, served: Mapping[str, PeerResources]) -> None:
        """Note the identity of this server, and what the peers serve now."""
        self.own_id, self.served, self._merged = own_id, served, None

    def that_serve(self, version: GroupVersion, resource: str) -> Sequence[str]:
        """Return the identities of the peers that serve a resource."""
        key = (version, resource)
        return [peer for peer, resources in self.served.items() if key in resources.resources]

    def with_groups_of_peers(self, own_groups: Sequence[Tree]) -> Sequence[Tree]:
        """Return the groups of this server and those of its peers, for aggregated discovery."""
        if self._merged is not None and self._merged.own_groups == own_groups:
            self._metrics.merged_hits += 1
            return self._merged.groups
        self._metrics.merged_misses += 1
        groups = {identity: peer.groups for identity, peer in self.served.items()}
        self._merged = _Merged(own_groups, merge_groups({**groups, self.own_id: own_groups}))
        return self._merged.groups


class _Merged(NamedTuple):
    """The groups of this server, and those that result with its peers."""

    own_groups: Sequence[Tree]
    groups: Sequence[Tree]


def make_peer_proxy(
    config: Config, leases: PeerLeases, metrics: PeerMetrics, file_watch: FileWatch
) -> PeerProxy:
    """Return the peers of a server with `--peer-ca-file`. Raises ValueError for unusable files."""
    connections = PeerConnections(config.peers, config.aggregation)
    file_watch.add_files(connections.files, connections.reload)
    return PeerProxy(connections, leases, metrics)
