"""The addresses of a cluster's servers as leases, Endpoints and EndpointSlices. Pure.

Mirrors pkg/controlplane/reconcilers of kube-apiserver.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage

_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_METADATA = {"name": "kubernetes", "namespace": "default"}
_SKIP_MIRROR = {"endpointslice.kubernetes.io/skip-mirror": "true"}
_OF_SERVICE = {"kubernetes.io/service-name": "kubernetes"}


class ServerAddress(Struct, frozen=True, order=True):
    """An address at which a server is reached."""

    port: int
    address: str

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"

    def lease(self, codecs: CodecFactory) -> bytes:
        """Return the value of the lease below `masterleases`: Endpoints of one address and port."""
        subset = {"addresses": [{"ip": self.address}], "ports": [_port(self.port)]}
        tree: Tree = {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {},
            "subsets": [subset],
        }
        return encode_for_storage(codecs, tree)


def address_of_lease(codecs: CodecFactory, value: bytes) -> ServerAddress | None:
    """Return the address in a lease, or None if it cannot be decoded. Leases of kube-apiserver have
    no port; it is 6443 then."""
    try:
        subset = (decode_from_storage(codecs, value).get("subsets") or [{}])[0]
    except CodecError:
        return None
    address = ((subset.get("addresses") or [{}])[0]).get("ip")
    port = ((subset.get("ports") or [{}])[0]).get("port") or 6443
    return ServerAddress(port, address) if address else None


def endpoints(server_addresses: Sequence[ServerAddress]) -> tuple[GroupVersion, Tree]:
    """Return the Endpoints of the service `kubernetes`, for sorted addresses."""
    subsets = [
        {"addresses": [{"ip": member.address} for member in members], "ports": [_port(port)]}
        for port, members in _by_port(server_addresses)
    ]
    metadata = _METADATA | {"labels": dict(_SKIP_MIRROR)}
    return CORE, {
        "kind": "Endpoints", "apiVersion": "v1", "metadata": metadata, "subsets": subsets,
    }  # fmt: skip


def slices(server_addresses: Sequence[ServerAddress]) -> tuple[GroupVersion, list[Tree]]:
    """Return its EndpointSlices, one for each port; the first is named as the service is."""
    result: list[Tree] = []
    for port, members in _by_port(server_addresses):
        metadata = _METADATA | {"labels": dict(_OF_SERVICE)}
        if result:
            metadata["name"] = f"kubernetes-{port}"
        addresses = [member.address for member in members]
        result.append(
            {
                "kind": "EndpointSlice",
                "apiVersion": str(_DISCOVERY),
                "metadata": metadata,
                "addressType": "IPv6" if ":" in addresses[0] else "IPv4",
                "endpoints": [
                    {"addresses": [address], "conditions": {"ready": True}} for address in addresses
                ],
                "ports": [_port(port)],
            }
        )
    return _DISCOVERY, result


def _by_port(
    server_addresses: Sequence[ServerAddress],
) -> list[tuple[int, list[ServerAddress]]]:
    groups = itertools.groupby(server_addresses, key=lambda member: member.port)
    return [(port, list(members)) for port, members in groups]


def _port(number: int) -> Tree:
    return {"name": "https", "port": number, "protocol": "TCP"}
