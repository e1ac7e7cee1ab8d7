"""The subresource `proxy` of pods, services and nodes: which address a request is passed on to.

A name in the path may have a scheme and a port: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`. Only the
address of a pod is connected to, never one that a user has merely written into an EndpointSlice.
Mirrors ResourceLocation of pkg/registry/core/pod, service/storage and node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kapiserver.api.accessors import value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.service_resolver import ready_endpoints, slices_of_service
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.subresources.connections import admit_connection
from kapiserver.apiserver.errors import BadRequest, ServiceUnavailable
from kapiserver.apiserver.http_client.addresses import check_address, is_global_unicast
from kapiserver.apiserver.http_client.errors import AddressNotAllowed
from kapiserver.apiserver.proxy.kubelets import kubelet_location
from kapiserver.apiserver.proxy.links import join_path
from kapiserver.apiserver.proxy.reverse_proxy import Location, forward
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_SCHEMES = ("", "http", "https")


class _Name(NamedTuple):
    """The parts of a name in the path; scheme and port may be empty."""

    scheme: str
    name: str
    port: str


async def pod_proxy(server: Server, request: Request, target: Target) -> AnyResponse:
    """Pass a request on to a port of a pod, by default the first that a container names."""
    options = await admit_connection(server, request, target)
    scheme, name, port = _parsed_name(request, "pod")
    pod = (await target.store.get(ObjectKey(target.key.namespace, name))).tree()
    addresses = _pod_addresses(pod)
    try:
        address = check_address(addresses[0] if addresses else "", is_global_unicast)
    except AddressNotAllowed as error:
        raise BadRequest(str(error)) from None
    location = Location(
        scheme=scheme or "http",
        host=address,
        port=port or _first_port(pod),
        path=_path(options),
        context=server.upstreams.insecure,
    )
    return await forward(server, request, location)


async def service_proxy(server: Server, request: Request, target: Target) -> AnyResponse:
    """Pass a request on to a ready pod of a service, by default to its port without a name."""
    options = await admit_connection(server, request, target)
    scheme, name, port = _parsed_name(request, "service")
    key = ObjectKey(target.key.namespace, name)
    if port.isascii() and port.isdigit():
        service = (await target.store.get(key)).tree()
        port = _port_name(service, name, int(port))
    host, number = await _random_endpoint(server, key, port)
    location = Location(
        scheme=scheme or "http",
        host=host,
        port=str(number),
        path=_path(options),
        context=server.upstreams.insecure,
    )
    return await forward(server, request, location)


async def node_proxy(server: Server, request: Request, target: Target) -> AnyResponse:
    """Pass a request on to the kubelet of a node, or to another port of the node."""
    options = await admit_connection(server, request, target)
    scheme, name, port = _parsed_name(request, "node")
    node = (await target.store.get(ObjectKey("", name))).tree()
    kubelet = kubelet_location(server, node, _path(options))
    if port in ("", kubelet.port):
        return await forward(server, request, kubelet)
    location = replace(
        kubelet,
        scheme=scheme or "http",
        port=port,
        context=server.upstreams.insecure,
        connect_seconds=None,
    )
    return await forward(server, request, location)


def _parsed_name(request: Request, kind: str) -> _Name:
    """Return the parts of the name in the path. Raises BadRequest."""
    text = request.info.name
    parts = text.split(":")
    if len(parts) < 3:
        parts = ["", *parts, ""][:3]
    if len(parts) > 3 or not parts[1] or parts[0] not in _SCHEMES:
        raise BadRequest(f'invalid {kind} request "{text}"')
    return _Name(*parts)


def _path(options: Tree) -> str:
    path: str = options.get("path") or ""
    return join_path("", path) if path else ""


def _pod_addresses(pod: Tree) -> Sequence[str]:
    """Return the addresses of a pod, the first one first."""
    status = pod.get("status") or {}
    others = [pod_ip.get("ip") or "" for pod_ip in status.get("podIPs") or ()]
    return list(dict.fromkeys(address for address in (status.get("podIP"), *others) if address))


def _first_port(pod: Tree) -> str:
    for container in value_at(pod, "spec", "containers") or ():
        if ports := container.get("ports"):
            return str(ports[0].get("containerPort") or "")
    return ""


def _port_name(service: Tree, name: str, number: int) -> str:
    """Return the name of a service's port with that number. Raises ServiceUnavailable."""
    for port in value_at(service, "spec", "ports") or ():
        if port.get("port") == number:
            return port.get("name") or ""
    raise ServiceUnavailable(f'no service port {number} found for service "{name}"')


async def _random_endpoint(server: Server, key: ObjectKey, port_name: str) -> tuple[str, int]:
    """Return address and port of a random endpoint that is ready, of the primary family if
    possible. Raises ServiceUnavailable if there is none."""
    slices = await slices_of_service(server.stores, server.offloader, key)
    primary = server.config.services.service_cluster_ip_range.split(",")[0]
    for host, port, endpoint in ready_endpoints(
        slices, port_name, "IPv6" if ":" in primary else "IPv4"
    ):
        if await _is_pod(server, key.namespace, endpoint):
            return host, port
    raise ServiceUnavailable(f'no endpoints available for service "{key.name}"')


async def _is_pod(server: Server, namespace: str, endpoint: Tree) -> bool:
    """Report whether the address of an endpoint is that of the pod which it refers to."""
    reference = endpoint.get("targetRef") or {}
    if reference.get("namespace") != namespace:
        return False
    pods = server.stores.by_name(CORE, "pods")
    try:
        pod = (await pods.get(ObjectKey(namespace, reference.get("name") or ""))).tree()
    except NotFound:
        return False
    return endpoint["addresses"][0] in _pod_addresses(pod)
