"""Finds out what the other servers of a store serve.

The Leases of `apiserver_identity.py` name the servers. When one comes, restarts or goes, all peers
are asked what they serve themselves; a peer that does not answer serves nothing, and is asked
again. Versions of custom resources and of extension API servers are left out
(`peers/peer_resources.py`). Mirrors peer_discovery.go and gv_exclusion_manager.go of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kapiserver.api.accessors import value_at
from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.identity import COMPONENT, IDENTITY_LABEL, LEASE_NAMESPACE
from kapiserver.apiserver.peers.connections import DiscoveryFailed
from kapiserver.apiserver.peers.metrics import ReroutedLabels
from kapiserver.apiserver.peers.peer_proxy import PeerProxy
from kapiserver.apiserver.peers.peer_resources import (
    GRACE_SECONDS,
    ExcludedVersions,
    PeerResources,
    without_versions,
)
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.objects.informer import ObjectChange

LEASES = GroupVersion("coordination.k8s.io", "v1")
_PEERS, _VERSIONS = "peers", "versions"
_BATCH_SECONDS = 0.5


class PeerDiscovery(Controller[str]):
    """The control loop; its queue holds `_PEERS` when servers come or go, and `_VERSIONS` when
    custom resources or APIServices do."""

    min_retry_seconds = 0.1
    max_retry_seconds = 30.0

    def __init__(self, context: ControllerContext, peers: PeerProxy, own_id: str) -> None:
        super().__init__(context)
        self._peers = peers
        self._own_id = own_id
        self._excluded = ExcludedVersions()
        self._fetched: Mapping[str, PeerResources] = {}

    def set_up(self) -> None:
        """Follow servers, custom resources and APIServices."""
        self._leases = self.watch(LEASES, "leases", self._for_lease)
        self.add_subscription(self.server.custom_resources.subscribe(self._on_versions))
        self.add_subscription(self.server.api_services.subscribe(self._on_versions))
        self.queue.add(_VERSIONS)

    async def reconcile(self, item: str) -> None:
        """Ask the peers, or note which versions every server has. Raises DiscoveryFailed if a peer
        does not answer."""
        problem = await self._fetch() if item == _PEERS else self._note_versions()
        excluded = self._excluded.at(self.clock.now())
        served = {
            identity: without_versions(peer, excluded) for identity, peer in self._fetched.items()
        }
        self._peers.replace(self._own_id, served)
        if problem:
            raise DiscoveryFailed(problem)

    # Changes.

    def _for_lease(self, change: ObjectChange) -> Iterable[str]:
        """Queue the peers when a server comes, restarts or goes, not when it renews its Lease."""
        if not self._is_peer(change.last):
            return ()
        old, new = change.old, change.new
        return (_PEERS,) if old is None or new is None or _holder(old) != _holder(new) else ()

    def _is_peer(self, lease: Entry) -> bool:
        namespace, name = lease.key
        return (
            namespace == LEASE_NAMESPACE
            and name != self._own_id
            and lease.labels.get(IDENTITY_LABEL) == COMPONENT
        )

    def _on_versions(self, _changed: Sequence[str]) -> None:
        self.queue.add_batched(_VERSIONS, _BATCH_SECONDS)

    # What a reconcile does.

    async def _fetch(self) -> str:
        """Ask all peers; return why one does not answer, or ""."""
        problem, fetched, metrics = "", {}, self.server.metrics.peers
        peers = [entry.key.name for entry in self._leases.lister.list() if self._is_peer(entry)]
        for identity in peers:
            address = await self._peers.leases.find(identity)
            if address is None:
                metrics.sync_errors.add("hostport_resolution")
                problem = f"{identity} has no address"
                continue
            try:
                fetched[identity] = await self._peers.connections.fetch_resources(address)
            except DiscoveryFailed as error:
                metrics.sync_errors.add("fetch_discovery")
                problem = f"{identity} at {address}: {error}"
                continue
            metrics.rerouted.add(ReroutedLabels("200"), 2)
        self._fetched = fetched
        return problem

    def _note_versions(self) -> str:
        definitions = self.server.custom_resources.summaries.values()
        versions = {
            GroupVersion(definition["spec"]["group"], version["name"])
            for definition in definitions
            for version in definition["spec"].get("versions") or ()
        }
        versions |= {
            api_service.version for api_service in self.server.api_services.remote.values()
        }
        self._excluded.replace(versions, self.clock.now())
        self.queue.add_after(_VERSIONS, GRACE_SECONDS + _BATCH_SECONDS)
        return ""


def _holder(lease: Entry) -> str | None:
    holder: str | None = value_at(lease.tree(), "spec", "holderIdentity")
    return holder
