"""Table columns of the core group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapiserver.api.accessors import labels_of, value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Age,
    CellReader,
    Column,
    Columns,
    age_of,
    labels_text,
    name,
    text,
)
from kapiserver.api.core.controller_columns import CONTROLLER_COLUMNS
from kapiserver.api.core.pods.columns import POD_COLUMNS
from kapiserver.api.core.volume_columns import CLAIM_COLUMNS, VOLUME_COLUMNS
from kapiserver.api.types import Tree

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _count(*keys: str) -> CellReader:
    return lambda obj: sum(len(obj.get(key) or ()) for key in keys)


# Component statuses.


def _healthy(key: str) -> CellReader:
    def cell(obj: Tree) -> str:
        conditions = [
            condition
            for condition in obj.get("conditions") or ()
            if condition.get("type") == "Healthy"
        ]
        return conditions[0].get(key) or "" if conditions else ""

    return cell


def _health(obj: Tree) -> str:
    status = _healthy("status")(obj)
    return "Healthy" if status == "True" else "Unhealthy" if status else "Unknown"


# Services.


def _cluster_ip(service: Tree) -> str:
    cluster_ips: Sequence[str] = value_at(service, "spec", "clusterIPs") or ()
    return cluster_ips[0] if cluster_ips else NONE


def _external_ip(service: Tree) -> str:
    spec = service.get("spec") or {}
    external_ips = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external_ips) or NONE
        case "LoadBalancer":
            ingress = value_at(service, "status", "loadBalancer", "ingress") or ()
            ingress_addresses = sorted(
                {entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""}
            )
            return ",".join(ingress_addresses + external_ips) or "<pending>"
        case "ExternalName":
            return spec.get("externalName") or ""
    return UNKNOWN


def _ports(service: Tree) -> str:
    ports = []
    for port in value_at(service, "spec", "ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port') or 0}{node_port}/{port.get('protocol') or ''}")
    return ",".join(ports) or NONE


def _selector(service: Tree) -> str:
    return labels_text(value_at(service, "spec", "selector"))


# Nodes.


def _node_status(node: Tree) -> str:
    conditions = value_at(node, "status", "conditions") or ()
    ready = next(
        (condition.get("status") for condition in conditions if condition.get("type") == "Ready"),
        None,
    )
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    unschedulable = value_at(node, "spec", "unschedulable")
    return f"{state},SchedulingDisabled" if unschedulable else state


def _roles(node: Tree) -> str:
    roles = set()
    for key, value in labels_of(node).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE:
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _address(type_: str) -> CellReader:
    def cell(node: Tree) -> str:
        for address in value_at(node, "status", "addresses") or ():
            if address.get("type") == type_:
                return address.get("address") or ""
        return NONE

    return cell


def _node_info(name: str, *, empty: str = UNKNOWN) -> CellReader:
    return text("status", "nodeInfo", name, empty=empty)


# Events.


def _first_seen(event: Tree) -> str | Age:
    return age_of(event.get("firstTimestamp") or event.get("eventTime"))


def _last_seen(event: Tree) -> str | Age:
    if event.get("series") is not None:
        return age_of(event["series"].get("lastObservedTime"))
    if event.get("lastTimestamp"):
        return age_of(event["lastTimestamp"])
    return _first_seen(event)


def _event_count(event: Tree) -> int:
    if event.get("series") is not None:
        return event["series"].get("count") or 0
    return event.get("count") or 1


def _target(event: Tree) -> str:
    kind = (value_at(event, "involvedObject", "kind") or "").lower()
    target = value_at(event, "involvedObject", "name")
    return f"{kind}/{target}" if target else kind


def _source(event: Tree) -> str:
    component = value_at(event, "source", "component") or event.get("reportingComponent") or ""
    host = value_at(event, "source", "host") or event.get("reportingInstance")
    return f"{component}, {host}" if host else component


# Quotas.


def _used(is_shown: Callable[[str], bool]) -> CellReader:
    def cell(quota: Tree) -> str:
        hard = value_at(quota, "status", "hard") or {}
        used = value_at(quota, "status", "used") or {}
        return ", ".join(
            f"{name}: {used.get(name) or 0}/{hard[name]}" for name in sorted(hard) if is_shown(name)
        )

    return cell


COLUMNS: dict[str, Columns] = {
    "ComponentStatus": Columns(
        (
            NAME,
            Column("Status", _health, "Whether the component is healthy."),
            Column("Message", _healthy("message"), "Message of the health check."),
            Column("Error", _healthy("error"), "Error of the health check, if it failed."),
        )
    ),
    "ConfigMap": Columns(
        (NAME, Column("Data", _count("data", "binaryData"), "Number of entries in the data."), AGE)
    ),
    "Event": Columns(
        (
            Column("Last Seen", _last_seen, "Time since the event was last seen."),
            Column("Type", text("type"), "Type of the event: Normal or Warning."),
            Column("Reason", text("reason"), "CamelCase reason of the event."),
            Column("Object", _target, "Object that the event is about."),
            Column(
                "Subobject",
                text("involvedObject", "fieldPath"),
                "Part of the object that the event is about.",
                priority=1,
            ),
            Column("Source", _source, "Component and node that reported the event.", priority=1),
            Column(
                "Message",
                lambda event: (event.get("message") or "").strip(),
                "Description of the event.",
            ),
            Column("First Seen", _first_seen, "Time since the event was first seen.", priority=1),
            Column("Count", _event_count, "How often the event was seen.", priority=1),
            Column("Name", name, NAME.description, format="name", priority=1),
        )
    ),
    "Namespace": Columns(
        (
            NAME,
            Column(
                "Status", text("status", "phase"), "Phase of the namespace: Active or Terminating."
            ),
            AGE,
        )
    ),
    "Node": Columns(
        (
            NAME,
            Column("Status", _node_status, "Whether the node is ready and accepts pods."),
            Column("Roles", _roles, "Roles of the node, from its labels."),
            AGE,
            Column(
                "Version", _node_info("kubeletVersion", empty=""), "Kubelet version of the node."
            ),
            Column(
                "Internal-IP",
                _address("InternalIP"),
                "Address of the node inside of the cluster.",
                priority=1,
            ),
            Column(
                "External-IP",
                _address("ExternalIP"),
                "Address of the node outside of the cluster.",
                priority=1,
            ),
            Column(
                "OS-Image", _node_info("osImage"), "Operating system image of the node.", priority=1
            ),
            Column(
                "Kernel-Version",
                _node_info("kernelVersion"),
                "Kernel version of the node.",
                priority=1,
            ),
            Column(
                "Container-Runtime",
                _node_info("containerRuntimeVersion"),
                "Container runtime of the node and its version.",
                priority=1,
            ),
        )
    ),
    "PersistentVolume": VOLUME_COLUMNS,
    "PersistentVolumeClaim": CLAIM_COLUMNS,
    "Pod": POD_COLUMNS,
    "ResourceQuota": Columns(
        (
            NAME,
            Column(
                "Request",
                _used(lambda name: not name.startswith("limits.")),
                "Used and allowed amount of each resource, limits excepted.",
            ),
            Column(
                "Limit",
                _used(lambda name: name.startswith("limits.")),
                "Used and allowed amount of each limit.",
            ),
            AGE,
        )
    ),
    "Secret": Columns(
        (
            NAME,
            Column("Type", text("type"), "Type of the secret, which says what keys it has."),
            Column("Data", _count("data"), "Number of entries in the data."),
            AGE,
        )
    ),
    "Service": Columns(
        (
            NAME,
            Column(
                "Type",
                text("spec", "type"),
                "Type of the service: ClusterIP, NodePort, LoadBalancer or ExternalName.",
            ),
            Column("Cluster-IP", _cluster_ip, "Address of the service inside of the cluster."),
            Column(
                "External-IP",
                _external_ip,
                "Addresses of the service outside of the cluster, or its external name.",
            ),
            Column("Port(s)", _ports, "Ports of the service, with node ports and protocol."),
            AGE,
            Column(
                "Selector",
                _selector,
                "Label selector of the pods that serve the requests.",
                priority=1,
            ),
        )
    ),
    "ServiceAccount": Columns((NAME, AGE)),
    **CONTROLLER_COLUMNS,
}
