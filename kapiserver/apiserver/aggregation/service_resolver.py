"""Where a Service is reached: its cluster IP, one of its endpoints, or its external name.

A file of the administrator (`--service-resolver`) may name other addresses, for machines without
kube-proxy. Mirrors ResolveCluster and ResolveEndpoint of pkg/util/proxy of k8s.io/apiserver.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.selectors import Requirement, Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import ServiceReference
from kapiserver.apiserver.configuration_files import BadConfiguration, read_configuration_data
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.codecs.errors import CodecError
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.store_registry import StoreRegistry

DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
SERVICE_NAME = "kubernetes.io/service-name"
"""The label of an EndpointSlice with the name of its Service."""

_WITH_CLUSTER_IP = ("ClusterIP", "LoadBalancer", "NodePort")
_MAX_PORT = 65535

Mapped: TypeAlias = Mapping[str, HostPort]
"""Addresses by NAMESPACE/NAME of a Service, or by NAMESPACE/NAME:PORT."""


class Unresolved(Exception):
    """The Service has no address now; the message is kube-aggregator's."""


class Endpoint(NamedTuple):
    """A ready endpoint of a Service: the address, the port, and the endpoint of the slice."""

    host: str
    port: int
    endpoint: Tree


def read_mapping(file: Path) -> Mapped:
    """Read the file of `--service-resolver`: a map in YAML or JSON from NAMESPACE/NAME, or
    NAMESPACE/NAME:PORT, to HOST:PORT. Raises BadConfiguration."""
    from kapiserver.codecs.yaml import decode_value  # most servers have no such file

    data = read_configuration_data(file, "service resolver")
    try:
        value = decode_value(data)
    except CodecError as error:
        raise BadConfiguration(f"service resolver file {file}: {error}") from error
    if value is None:  # an empty file
        return {}
    if not isinstance(value, dict):
        raise BadConfiguration(f"service resolver file {file}: must be a map")
    return {name: _host_port(file, name, address) for name, address in value.items()}


def _host_port(file: Path, name: str, address: object) -> HostPort:
    host, _, port = str(address).rpartition(":")
    if not (host and name.count("/") == 1 and port.isascii() and port.isdigit()):
        detail = f"{quote(name)}: must be NAMESPACE/NAME with the value HOST:PORT"
        raise BadConfiguration(f"service resolver file {file}: {detail}")
    if not 0 < int(port) <= _MAX_PORT:
        raise BadConfiguration(f"service resolver file {file}: {quote(name)}: invalid port {port}")
    return HostPort(host.strip("[]"), int(port))


class ServiceResolver:
    """Resolves Services.

    mapped          addresses that an administrator has given
    uses_endpoints  whether a Service is reached at one of its endpoints
                    (`--enable-aggregator-routing`), or else at its cluster IP
    """

    def __init__(
        self, stores: StoreRegistry, offloader: Offloader, mapped: Mapped, *, uses_endpoints: bool
    ) -> None:
        self._stores = stores
        self._offloader = offloader
        self._mapped = mapped
        self._uses_endpoints = uses_endpoints

    def mapped(self, service: ServiceReference) -> HostPort | None:
        """Return the address that an administrator has given to a Service, or None."""
        if not self._mapped:
            return None
        name = f"{service.namespace}/{service.name}"
        return self._mapped.get(f"{name}:{service.port}") or self._mapped.get(name)

    async def resolve(self, service: ServiceReference) -> HostPort:
        """Return the address of a Service that no administrator has given. Raises Unresolved."""
        store = self._stores.by_name(CORE, "services")
        key = ObjectKey(service.namespace, service.name)
        try:
            obj = (await store.get(key, resource_version="0")).tree()
        except NotFound:
            raise Unresolved(f'service "{service.name}" not found') from None
        if not self._uses_endpoints:
            return cluster_address(obj, service)
        port_name = _port_name(obj, service)
        slices = await slices_of_service(self._stores, self._offloader, key)
        families = value_at(obj, "spec", "ipFamilies") or ("IPv4",)
        for endpoint in ready_endpoints(slices, port_name, families[0]):
            return HostPort(endpoint.host, endpoint.port)
        raise Unresolved(f'no endpoints available for service "{service.name}"')


def cluster_address(obj: Tree, service: ServiceReference) -> HostPort:
    """Return the cluster IP of a Service, or its external name. Raises Unresolved."""
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return HostPort(spec.get("externalName") or "", service.port)
    if spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None":
        raise Unresolved('cannot route to service with ClusterIP "None"')
    _port_name(obj, service)
    return HostPort(spec.get("clusterIP") or "", service.port)


def _port_name(obj: Tree, service: ServiceReference) -> str:
    """Return the name of the port of a Service. Raises Unresolved."""
    spec = obj.get("spec") or {}
    if spec.get("type") not in _WITH_CLUSTER_IP:
        raise Unresolved(f"unsupported service type {quote(spec.get('type') or '')}")
    for port in spec.get("ports") or ():
        if port.get("port") == service.port:
            return port.get("name") or ""
    raise Unresolved(f'no service port {service.port} found for service "{service.name}"')


async def slices_of_service(
    stores: StoreRegistry, offloader: Offloader, service: ObjectKey
) -> list[Tree]:
    """Return the EndpointSlices of a Service, from the watch cache."""
    store = stores.by_name(DISCOVERY, "endpointslices")
    of_service = Selection(labels=(Requirement(SERVICE_NAME, "=", (service.name,)),))
    query = ListQuery(namespace=service.namespace, selection=of_service, resource_version="0")
    entries = (await store.list(query)).entries
    return [await offloader.tree(entry) for entry in entries]


def ready_endpoints(slices: Sequence[Tree], port_name: str, family: str) -> Iterator[Endpoint]:
    """Yield the endpoints that are ready and have a port of that name in random order, those of
    slices of the IP family first."""
    shuffled = random.sample(slices, len(slices))
    for endpoint_slice in sorted(
        shuffled, key=lambda candidate: candidate.get("addressType") != family
    ):
        endpoints = endpoint_slice.get("endpoints") or ()
        for port in endpoint_slice.get("ports") or ():
            if (port.get("name") or "") != port_name or port.get("port") is None:
                continue
            for endpoint in random.sample(endpoints, len(endpoints)):
                if value_at(endpoint, "conditions", "ready") is not False:
                    yield Endpoint(endpoint["addresses"][0], port["port"], endpoint)
