"""Validation of services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kapiserver.api import addresses, names
from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.services import (
    EXTERNAL_NAME,
    is_externally_accessible,
    is_headless,
    needs_health_check_node_port,
)
from kapiserver.api.core.validation.common import (
    PROTOCOLS,
    validate_enum,
    validate_format,
    validate_optional_enum,
    validate_port_number_or_name,
)
from kapiserver.api.core.validation.service_addresses import (
    SPEC,
    validate_cluster_ip_fields,
    validate_cluster_ips_update,
)
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.types import Tree

_TYPES = ("ClusterIP", EXTERNAL_NAME, "LoadBalancer", "NodePort")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_AFFINITY_SECONDS_MAX = 86400
_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ANNOTATIONS = Path("metadata") / "annotations"
_ONLY_LOAD_BALANCERS = "may only be used when `type` is 'LoadBalancer'"


def validate_service(obj: Tree) -> Iterator[FieldError]:
    """Validate a new service."""
    return _validate_service_fields(obj, {})


def validate_service_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated service. Allocated addresses stay, and old values need not be valid."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from validate_cluster_ips_update(spec, old_spec)
    is_load_balancer = _is_load_balancer(spec) and _is_load_balancer(old_spec)
    class_ = spec.get("loadBalancerClass")
    if is_load_balancer and class_ != old_spec.get("loadBalancerClass"):
        yield invalid(SPEC / "loadBalancerClass", class_, "may not change once set")
    yield from _validate_load_balancer_class(spec)
    if needs_health_check_node_port(spec) and needs_health_check_node_port(old_spec):
        port, old_port = (
            service_spec.get("healthCheckNodePort") or 0 for service_spec in (spec, old_spec)
        )
        if port != old_port:
            yield forbidden(SPEC / "healthCheckNodePort", IMMUTABLE)
    yield from _validate_service_fields(new, old)


def _validate_service_fields(obj: Tree, old: Tree) -> Iterator[FieldError]:
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    ports: Sequence[Tree] = spec.get("ports") or ()
    yield from _validate_topology_annotations(annotations_of(obj))
    if not ports and not is_headless(spec) and spec.get("type") != EXTERNAL_NAME:
        yield required(SPEC / "ports")
    yield from _validate_service_type(spec)
    port_names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _validate_port(
            port, (SPEC / "ports")[index], port_names, name_required=len(ports) > 1
        )
    yield from validate_labels(spec.get("selector"), SPEC / "selector")
    yield from _validate_session_affinity(spec)
    yield from validate_cluster_ip_fields(spec, old_spec)
    old_ips = old_spec.get("externalIPs") or ()
    for index, text in enumerate(spec.get("externalIPs") or ()):
        text_path = (SPEC / "externalIPs")[index]
        errors = list(validate_format(addresses.ip, text, text_path, old_values=old_ips))
        yield from errors or validate_format(addresses.ordinary_ip, text, text_path)
    yield from validate_enum(spec.get("type"), _TYPES, SPEC / "type")
    yield from _validate_unique_ports(spec, ports)
    yield from _validate_source_ranges(obj, old)
    yield from _validate_node_port_allocation(spec)
    yield from _validate_load_balancer_class(spec)
    yield from _validate_traffic_policies(spec)


def _validate_topology_annotations(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    hints, mode = (annotations.get(name) for name in (_HINTS_ANNOTATION, _MODE_ANNOTATION))
    if hints is not None and mode is not None and hints != mode:
        detail = f"must match annotations[{_HINTS_ANNOTATION}] when both are specified"
        yield invalid(_ANNOTATIONS[_MODE_ANNOTATION], mode, detail)


def _validate_service_type(spec: Tree) -> Iterator[FieldError]:
    type_ = spec.get("type")
    if type_ in ("LoadBalancer", "NodePort") and is_headless(spec):
        detail = f"may not be set to 'None' for {type_} services"
        yield invalid((SPEC / "clusterIPs")[0], "None", detail)
    if type_ != EXTERNAL_NAME:
        return
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden(SPEC / name, "may not be set for ExternalName services")
    target = (spec.get("externalName") or "").removesuffix(".")
    if target:
        yield from validate_format(names.dns1123_subdomain, target, SPEC / "externalName")
    else:
        yield required(SPEC / "externalName")


def _validate_port(
    port: Tree, path: Path, port_names: set[str], *, name_required: bool
) -> Iterator[FieldError]:
    name = port.get("name") or ""
    if name:
        yield from validate_format(names.dns1123_label, name, path / "name")
        if name in port_names:
            yield duplicate(path / "name", name)
        port_names.add(name)
    elif name_required:
        yield required(path / "name")
    number = port.get("port") or 0
    for message in names.port_number(number):
        yield invalid(path / "port", number, message)
    yield from validate_enum(port.get("protocol"), PROTOCOLS, path / "protocol")
    yield from validate_port_number_or_name(port.get("targetPort"), path / "targetPort")
    if port.get("appProtocol") is not None:
        yield from validate_format(names.qualified_name, port["appProtocol"], path / "appProtocol")


def _validate_session_affinity(spec: Tree) -> Iterator[FieldError]:
    kind, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    path = SPEC / "sessionAffinityConfig"
    yield from validate_enum(kind, ("ClientIP", "None"), SPEC / "sessionAffinity")
    if kind == "None" and config is not None:
        yield forbidden(path, "must not be set when session affinity is None")
    if kind != "ClientIP":
        return
    detail = "when session affinity type is ClientIP"
    client = (config or {}).get("clientIP")
    if config is None:
        yield required(path, detail)
    elif client is None:
        yield required(path / "clientIP", detail)
    elif client.get("timeoutSeconds") is None:
        yield required(path / "clientIP" / "timeoutSeconds", detail)
    elif not 0 < client["timeoutSeconds"] <= _AFFINITY_SECONDS_MAX:
        words = f"must be greater than 0 and less than {_AFFINITY_SECONDS_MAX}"
        yield invalid(path / "clientIP" / "timeoutSeconds", client["timeoutSeconds"], words)


def _validate_unique_ports(spec: Tree, ports: Sequence[Tree]) -> Iterator[FieldError]:
    path = SPEC / "ports"
    node_ports = [(index, port) for index, port in enumerate(ports) if port.get("nodePort")]
    if spec.get("type") == "ClusterIP":
        for index, _ in node_ports:
            detail = "may not be used when `type` is 'ClusterIP'"
            yield forbidden(path[index] / "nodePort", detail)
    seen_node_ports: set[tuple[str, int]] = set()
    for index, port in node_ports:
        key = (port.get("protocol") or "", port["nodePort"])
        if key in seen_node_ports:
            yield duplicate(path[index] / "nodePort", port["nodePort"])
        seen_node_ports.add(key)
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port") or 0)
        if key in seen:
            yield duplicate(path[index], _go_port(*key))
        seen.add(key)


def _go_port(protocol: str, port: int) -> Tree:
    # The internal Go struct, whose JSON form has the names of Go's fields.
    return {
        "Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port, "TargetPort": 0,
        "NodePort": 0,
    }  # fmt: skip


def _is_load_balancer(spec: Tree) -> bool:
    return spec.get("type") == "LoadBalancer"


def _validate_source_ranges(obj: Tree, old: Tree) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    ranges = spec.get("loadBalancerSourceRanges") or ()
    annotation = annotations_of(obj).get(_SOURCE_RANGES_ANNOTATION)
    if ranges:
        # The field's name as in kube-apiserver's messages.
        path, old_ranges = SPEC / "LoadBalancerSourceRanges", _old_source_ranges(old)
        if not _is_load_balancer(spec):
            yield forbidden(path, _ONLY_LOAD_BALANCERS)
        for index, text in enumerate(ranges):
            yield from validate_format(
                addresses.cidr, text.strip(), path[index], old_values=old_ranges
            )
    elif annotation is not None:
        path = _ANNOTATIONS[_SOURCE_RANGES_ANNOTATION]
        if not _is_load_balancer(spec):
            yield forbidden(path, _ONLY_LOAD_BALANCERS)
        if annotation.strip() and annotation != annotations_of(old).get(_SOURCE_RANGES_ANNOTATION):
            for text in annotation.strip().split(","):
                yield from validate_format(addresses.cidr, text.strip(), path)


def _old_source_ranges(old: Tree) -> list[str]:
    return [text.strip() for text in value_at(old, "spec", "loadBalancerSourceRanges") or ()]


def _validate_node_port_allocation(spec: Tree) -> Iterator[FieldError]:
    name = "allocateLoadBalancerNodePorts"
    if spec.get(name) is not None and not _is_load_balancer(spec):
        yield forbidden(SPEC / name, _ONLY_LOAD_BALANCERS)
    if spec.get(name) is None and _is_load_balancer(spec):
        yield required(Path(name))


def _validate_load_balancer_class(spec: Tree) -> Iterator[FieldError]:
    class_, class_path = spec.get("loadBalancerClass"), SPEC / "loadBalancerClass"
    if class_ is None:
        return
    if _is_load_balancer(spec):
        yield from validate_format(names.qualified_name, class_, class_path)
    else:
        yield forbidden(class_path, _ONLY_LOAD_BALANCERS)


def _validate_traffic_policies(spec: Tree) -> Iterator[FieldError]:
    external, field_path = spec.get("externalTrafficPolicy") or "", SPEC / "externalTrafficPolicy"
    if is_externally_accessible(spec):
        yield from validate_enum(external, _TRAFFIC_POLICIES, field_path)
    elif external:
        yield invalid(field_path, external, "may only be set for externally-accessible services")
    port, field_path = spec.get("healthCheckNodePort") or 0, SPEC / "healthCheckNodePort"
    if needs_health_check_node_port(spec):
        if not port:
            yield required(field_path)
        else:
            yield from (invalid(field_path, port, message) for message in names.port_number(port))
    elif port:
        detail = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        yield invalid(field_path, port, detail)
    internal, field_path = spec.get("internalTrafficPolicy"), SPEC / "internalTrafficPolicy"
    if internal is None and spec.get("type") in ("ClusterIP", "LoadBalancer", "NodePort"):
        yield required(field_path)
    yield from validate_optional_enum(internal, _TRAFFIC_POLICIES, field_path)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield not_supported_in_order(SPEC / "trafficDistribution", distribution, _DISTRIBUTIONS)


def validate_service_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the load balancer status of a service."""
    path = Path("status") / "loadBalancer" / "ingress"
    ingress = value_at(new, "status", "loadBalancer", "ingress") or ()
    if ingress and not _is_load_balancer(new.get("spec") or {}):
        yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    old_ingress = value_at(old, "status", "loadBalancer", "ingress") or ()
    old_ips = [entry["ip"] for entry in old_ingress if entry.get("ip")]
    for index, entry in enumerate(ingress):
        text, mode = entry.get("ip") or "", entry.get("ipMode")
        if text:
            yield from validate_format(addresses.ip, text, path[index] / "ip", old_values=old_ips)
        ip_mode_path = path[index] / "ipMode"
        if mode is None:
            if text:
                yield required(ip_mode_path, "must be specified when `ip` is set")
        elif not text:
            yield forbidden(ip_mode_path, "may not be specified when `ip` is not set")
        elif mode not in ("Proxy", "VIP"):
            yield not_supported(ip_mode_path, mode, ("Proxy", "VIP"))
        yield from validate_load_balancer_hostname(
            entry.get("hostname") or "", path[index] / "hostname"
        )


def validate_load_balancer_hostname(host: str, path: Path) -> Iterator[FieldError]:
    """Validate the host name of a load balancer, if it is set."""
    if not host:
        return
    yield from validate_format(names.dns1123_subdomain, host, path)
    if addresses.address_of(host) is not None:
        yield invalid(path, host, "must be a DNS name, not an IP address")
