"""Build the Endpoints and EndpointSlices of a service from the pods it selects. Pure.

Mirrors pkg/controller/endpoint, k8s.io/endpointslice and pkg/controller/endpointslicemirroring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kapiserver.api.accessors import (
    annotations_of,
    has_condition,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.core.services import EXTERNAL_NAME, ip_family, is_headless
from kapiserver.api.types import Tree

SLICE_MAX = 100
"""The maximum number of endpoints in one slice."""
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
_HEADLESS_LABEL = "service.kubernetes.io/headless"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def selects_pods(service: Tree) -> bool:
    """Return whether the endpoints of a service are built from pods."""
    spec = service.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != EXTERNAL_NAME


def selected_pods(service: Tree, pods: Iterable[Tree]) -> list[Tree]:
    """Return the running pods of a service that have addresses, sorted by name."""
    selector = service["spec"]["selector"].items()
    result = [
        pod
        for pod in pods
        if selector <= labels_of(pod).items()
        and value_at(pod, "status", "podIP")
        and value_at(pod, "status", "phase") not in ("Failed", "Succeeded")
    ]
    return sorted(result, key=name_of)


def _families(service: Tree) -> list[str]:
    return value_at(service, "spec", "ipFamilies") or ["IPv4"]


def _address(pod: Tree, family: str) -> str | None:
    addresses = [item.get("ip") for item in value_at(pod, "status", "podIPs") or ()]
    for address in (*addresses, value_at(pod, "status", "podIP")):
        if address and ip_family(address) == family:
            return str(address)
    return None


def _port(pod: Tree, port: Tree) -> int | None:
    """Return the number of a service's port at a pod, or None if the pod has no port of that
    name."""
    target = port.get("targetPort") or port.get("port")
    if isinstance(target, int):
        return target
    for container in value_at(pod, "spec", "containers") or ():
        for item in container.get("ports") or ():
            has_protocol = item.get("protocol") == port.get("protocol")
            if item.get("name") == target and has_protocol:
                return int(item["containerPort"])
    return None


def _ports(pod: Tree, service: Tree) -> list[Tree] | None:
    """Return the ports of a service at a pod, or None if there are none and the service is not
    headless."""
    result = []
    for port in value_at(service, "spec", "ports") or ():
        number = _port(pod, port)
        if number is not None:
            item = {
                name: port[name] for name in ("name", "protocol", "appProtocol") if name in port
            }
            result.append({"port": number, **item})
    if result or is_headless(service["spec"]):
        return result
    return None


def _about(pod: Tree, service: Tree) -> Tree:
    result: Tree = {
        "targetRef": {
            "kind": "Pod",
            "namespace": namespace_of(pod),
            "name": name_of(pod),
            "uid": uid_of(pod),
        }
    }
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        result["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == name_of(service):
        result["hostname"] = spec["hostname"]
    return result


def subsets(service: Tree, pods: Sequence[Tree]) -> list[Tree]:
    """Return the subsets of a service's Endpoints, one for each pod."""
    result = []
    all_ready = bool(value_at(service, "spec", "publishNotReadyAddresses"))
    for pod in pods:
        address, ports = _address(pod, _families(service)[0]), _ports(pod, service)
        if address is None or ports is None or (is_terminating(pod) and not all_ready):
            continue
        kind = "addresses" if all_ready or has_condition(pod, "Ready") else "notReadyAddresses"
        subset: Tree = {kind: [{"ip": address, **_about(pod, service)}]}
        if ports:
            subset["ports"] = ports
        result.append(subset)
    return result


def labels(service: Tree) -> dict[str, str]:
    """Return the labels that the Endpoints and slices of a service take from it."""
    result = {key: value for key, value in labels_of(service).items() if key != _HEADLESS_LABEL}
    if is_headless(service.get("spec") or {}):
        result[_HEADLESS_LABEL] = ""
    return result


def slices(service: Tree, pods: Sequence[Tree]) -> list[Tree]:
    """Return the slices of a service by address family and set of ports, at least one for each
    family."""
    all_ready = bool(value_at(service, "spec", "publishNotReadyAddresses"))
    result = []
    for family in _families(service):
        groups: dict[str, tuple[list[Tree], list[Tree]]] = {}
        for pod in pods:
            address, ports = _address(pod, family), _ports(pod, service)
            if address is None or ports is None:
                continue
            ready, terminating = has_condition(pod, "Ready"), is_terminating(pod)
            conditions = {
                "ready": all_ready or (ready and not terminating),
                "serving": ready,
                "terminating": terminating,
            }
            endpoint = {"addresses": [address], "conditions": conditions, **_about(pod, service)}
            named = [{"name": "", **port} for port in ports]
            groups.setdefault(repr(named), (named, []))[1].append(endpoint)
        result.extend(_chunks(family, groups.values()) or [_slice(family, [], [])])
    return result


def _chunks(family: str, groups: Iterable[tuple[list[Tree], list[Tree]]]) -> list[Tree]:
    return [
        _slice(family, ports, endpoints[start : start + SLICE_MAX])
        for ports, endpoints in groups
        for start in range(0, len(endpoints), SLICE_MAX)
    ]


def _slice(family: str, ports: list[Tree], endpoints: list[Tree]) -> Tree:
    return {"addressType": family, "endpoints": endpoints, "ports": ports}


def is_mirrored(endpoints: Tree, service: Tree) -> bool:
    """Return whether Endpoints written by others are mirrored as slices."""
    skipped = labels_of(endpoints).get(SKIP_MIRROR) == "true"
    leader = _LEADER in annotations_of(endpoints)
    return not skipped and not leader and not value_at(service, "spec", "selector")


def mirrored_slices(endpoints: Tree) -> list[Tree]:
    """Return the slices that mirror Endpoints."""
    result = []
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", **port} for port in subset.get("ports") or ()]
        by_family: dict[str, tuple[list[Tree], list[Tree]]] = {}
        for kind in ("addresses", "notReadyAddresses"):
            for item in subset.get(kind) or ():
                about = {
                    name: item[name]
                    for name in ("hostname", "nodeName", "targetRef")
                    if item.get(name)
                }
                endpoint = {
                    "addresses": [item["ip"]],
                    "conditions": {"ready": kind == "addresses"},
                    **about,
                }
                by_family.setdefault(ip_family(item["ip"]), (ports, []))[1].append(endpoint)
        for family, group in by_family.items():
            result.extend(_chunks(family, [group]))
    return result


def mirrored_annotations(endpoints: Tree) -> dict[str, str]:
    """Return the annotations of Endpoints that their slices get."""
    excluded = ("kubectl.kubernetes.io/last-applied-configuration", _TRIGGER)
    return {key: value for key, value in annotations_of(endpoints).items() if key not in excluded}


def owned_by(owner: Tree, kind: str) -> Tree:
    """Return an owner reference to the object for which another is written."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": name_of(owner),
        "uid": metadata_of(owner).get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
