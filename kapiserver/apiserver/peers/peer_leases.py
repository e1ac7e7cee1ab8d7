"""Where each server of a store is reached by its peers.

A server writes its address below `peerserverleases`, by its identity, with a lease that it renews;
that of a server that died expires. The values are those of kube-apiserver, so that both kinds of
servers find each other. Mirrors reconcilers/peer_endpoint_lease.go of k8s.io/apiserver.
"""

from __future__ import annotations

import contextlib

from kapiserver.api.types import Tree
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.storage.errors import Conflict
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.kv.leased_key import renew_key

LEASE_SECONDS = 15
IDENTITY_LABEL = "apiserverIdentity"


class PeerLeases:
    """The addresses in the store below `root`."""

    def __init__(self, kv: KV, codecs: CodecFactory, root: str) -> None:
        self._kv = kv
        self._codecs = codecs
        self._prefix = f"{root}/peerserverleases/"

    async def renew(self, server_id: str, address: HostPort) -> None:
        """Write the address of a server for another LEASE_SECONDS. Raises StorageError."""

        def value(current: bytes | None) -> bytes:
            generation = 0 if current is None else self._generation(current)
            return self._encoded(server_id, address, generation + 1)

        await renew_key(self._kv, f"{self._prefix}{server_id}", value, ttl=LEASE_SECONDS)

    async def remove(self, server_id: str) -> None:
        """Remove the address of a server. Raises StorageError."""
        key = f"{self._prefix}{server_id}"
        item = (await self._kv.get(key)).item
        if item is not None:
            with contextlib.suppress(Conflict):  # it expired
                await self._kv.delete(key, expected=item.revision)

    async def find(self, server_id: str) -> HostPort | None:
        """Return the address of a server, or None if it has none. Raises StorageError."""
        item = (await self._kv.get(f"{self._prefix}{server_id}")).item
        return None if item is None else self._decoded(item.value)

    def _encoded(self, server_id: str, address: HostPort, generation: int) -> bytes:
        port = {"name": "https", "port": address.port, "protocol": "TCP"}
        return encode_for_storage(
            self._codecs,
            {
                "kind": "Endpoints",
                "apiVersion": "v1",
                "metadata": {"generation": generation, "labels": {IDENTITY_LABEL: server_id}},
                "subsets": [{"addresses": [{"ip": address.host}], "ports": [port]}],
            },
        )

    def _decoded(self, value: bytes) -> HostPort | None:
        subset = (self._tree(value).get("subsets") or [{}])[0]
        host = ((subset.get("addresses") or [{}])[0]).get("ip")
        port = ((subset.get("ports") or [{}])[0]).get("port")
        return HostPort(host, port) if host and port else None

    def _generation(self, value: bytes) -> int:
        return (self._tree(value).get("metadata") or {}).get("generation") or 0

    def _tree(self, value: bytes) -> Tree:
        try:
            return decode_from_storage(self._codecs, value)
        except CodecError:
            return {}
