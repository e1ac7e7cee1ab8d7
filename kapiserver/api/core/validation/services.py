"""Rules for services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.validation.common import PROTOCOLS, checked, chosen, port_or_name
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITY_SECONDS_MAX = 86400
_KUBELET_PORT = 10250


def service(obj: Tree) -> Iterator[FieldError]:
    """A service, new or changed."""
    spec = obj.get("spec") or {}
    ports: Sequence[Tree] = spec.get("ports") or ()
    headless = (spec.get("clusterIPs") or [""])[0] == "None"
    if not ports and not headless and spec.get("type") != "ExternalName":
        yield required(_SPEC / "ports")
    yield from _of_type(spec, ports, headless=headless)
    seen: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, (_SPEC / "ports")[index], seen, named=len(ports) > 1)
    yield from validate_labels(spec.get("selector"), _SPEC / "selector")
    yield from _affinity(spec)
    yield from address_fields(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from _external_ip(address, (_SPEC / "externalIPs")[index])
    yield from chosen(spec.get("type"), _TYPES, _SPEC / "type")
    yield from _unique_ports(spec, ports)
    yield from _balancing(spec)


def _of_type(spec: Tree, ports: Sequence[Tree], *, headless: bool) -> Iterator[FieldError]:
    type_ = spec.get("type")
    if type_ == "LoadBalancer":
        for index, port in enumerate(ports):
            if port.get("port") == _KUBELET_PORT:
                detail = (
                    f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
                )
                yield invalid((_SPEC / "ports")[index], _KUBELET_PORT, detail)
    if type_ in ("LoadBalancer", "NodePort") and headless:
        detail = f"may not be set to 'None' for {type_} services"
        yield invalid((_SPEC / "clusterIPs")[0], "None", detail)
    if type_ != "ExternalName":
        return
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden(_SPEC / name, "may not be set for ExternalName services")
    target = (spec.get("externalName") or "").removesuffix(".")
    if target:
        yield from checked(names.dns1123_subdomain, target, _SPEC / "externalName")
    else:
        yield required(_SPEC / "externalName")


def _port(port: Tree, path: Path, seen: set[str], *, named: bool) -> Iterator[FieldError]:
    name = port.get("name") or ""
    if name:
        yield from checked(names.dns1123_label, name, path / "name")
        if name in seen:
            yield duplicate(path / "name", name)
        seen.add(name)
    elif named:
        yield required(path / "name")
    number = port.get("port") or 0
    for message in names.port_number(number):
        yield invalid(path / "port", number, message)
    yield from chosen(port.get("protocol"), PROTOCOLS, path / "protocol")
    yield from port_or_name(port.get("targetPort"), path / "targetPort")
    if port.get("appProtocol") is not None:
        yield from checked(names.qualified_name, port["appProtocol"], path / "appProtocol")


def _affinity(spec: Tree) -> Iterator[FieldError]:
    kind, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    path = _SPEC / "sessionAffinityConfig"
    yield from chosen(kind, ("ClientIP", "None"), _SPEC / "sessionAffinity")
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


def address_fields(spec: Tree) -> Iterator[FieldError]:
    """The rules for addresses and families, which hold before addresses are handed out too."""
    if spec.get("type") == "ExternalName":
        return
    errors = [*_addresses_agree(spec), *_families(spec)]
    listed: Sequence[str] = spec.get("clusterIPs") or ()
    path, wrong = _SPEC / "clusterIPs", []
    for index, address in enumerate(listed):
        if index == 0 and address == "None":
            if len(listed) > 1:
                wrong.append(invalid(path, listed, "'None' must be the first and only value"))
        else:
            wrong.extend(checked(names.ip, address, path[index]))
    if len(listed) > 2:
        errors.append(invalid(path, listed, "may only hold up to 2 values"))
    yield from (*errors, *wrong)
    if wrong:
        return
    kinds = [ipaddress.ip_address(one).version for one in listed if one != "None"]
    if len(listed) > 1 and len(set(kinds)) != 2:
        yield invalid(path, listed, "may specify no more than one IP for each IP family")
    elif not errors:
        for index, (kind, family) in enumerate(
            zip(kinds, spec.get("ipFamilies") or (), strict=False)
        ):
            if f"IPv{kind}" != family:
                detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                yield invalid(path[index], listed[index], detail)


def _addresses_agree(spec: Tree) -> Iterator[FieldError]:
    first, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    path = _SPEC / "clusterIPs"
    if first and not listed:
        yield required(path)
    elif first and listed[0] != first:
        yield invalid(path, listed, "first value must match `clusterIP`")
    elif listed and not first:
        yield invalid(path, listed, "must be empty when `clusterIP` is not specified")


def _families(spec: Tree) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        at = (_SPEC / "ipFamilies")[index]
        if family not in ("IPv4", "IPv6"):
            yield not_supported(at, family, ("IPv4", "IPv6"))
        if family in seen:
            yield duplicate(at, family)
        seen.add(family)
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    policy = spec.get("ipFamilyPolicy")
    yield from chosen(policy, policies, _SPEC / "ipFamilyPolicy", optional=True)


def _external_ip(text: str, path: Path) -> Iterator[FieldError]:
    messages = names.ip(text)
    for message in messages:
        yield invalid(path, text, message)
    if messages:
        return
    address = ipaddress.ip_address(text)
    for is_special, detail in (
        (address.is_unspecified, "may not be unspecified (0.0.0.0 or ::)"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (
            address.is_link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            address.is_multicast and text.startswith(("224.0.0.", "ff02", "FF02")),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ):
        if is_special:
            yield invalid(path, text, detail)


def _unique_ports(spec: Tree, ports: Sequence[Tree]) -> Iterator[FieldError]:
    nodes: set[tuple[str, int]] = set()
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at, node = (_SPEC / "ports")[index], port.get("nodePort") or 0
        protocol = port.get("protocol") or ""
        if node and spec.get("type") == "ClusterIP":
            yield forbidden(at / "nodePort", "may not be used when `type` is 'ClusterIP'")
        if node:
            if (protocol, node) in nodes:
                yield duplicate(at / "nodePort", node)
            nodes.add((protocol, node))
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port") or 0)
        if key in seen:
            shown = {"protocol": key[0], "port": key[1], "targetPort": 0}
            yield duplicate((_SPEC / "ports")[index], shown)
        seen.add(key)


def _balancing(spec: Tree) -> Iterator[FieldError]:
    type_ = spec.get("type")
    balanced = type_ == "LoadBalancer"
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        at = (_SPEC / "loadBalancerSourceRanges")[index]
        if not balanced:
            yield forbidden(at, "may only be used when `type` is 'LoadBalancer'")
        else:
            yield from checked(_cidr, text.strip(), at)
    if not balanced and spec.get("allocateLoadBalancerNodePorts") is not None:
        detail = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden(_SPEC / "allocateLoadBalancerNodePorts", detail)
    if spec.get("loadBalancerClass") is not None:
        at = _SPEC / "loadBalancerClass"
        if not balanced:
            yield forbidden(at, "may only be used when `type` is 'LoadBalancer'")
        yield from checked(names.qualified_name, spec["loadBalancerClass"], at)
    yield from _traffic(spec)


def _traffic(spec: Tree) -> Iterator[FieldError]:
    type_, external = spec.get("type"), spec.get("externalTrafficPolicy") or ""
    reachable = type_ in ("LoadBalancer", "NodePort") or (
        type_ == "ClusterIP" and spec.get("externalIPs")
    )
    at = _SPEC / "externalTrafficPolicy"
    if not reachable:
        if external:
            detail = "may only be set for externally-accessible services"
            yield invalid(at, external, detail)
    elif not external:
        yield required(at)
    elif external not in ("Cluster", "Local"):
        yield not_supported(at, external, ("Cluster", "Local"))
    port = spec.get("healthCheckNodePort") or 0
    if port and not (type_ == "LoadBalancer" and external == "Local"):
        detail = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        yield invalid(_SPEC / "healthCheckNodePort", port, detail)
    internal = spec.get("internalTrafficPolicy")
    policies = ("Cluster", "Local")
    yield from chosen(internal, policies, _SPEC / "internalTrafficPolicy", optional=True)


_BAD_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _cidr(text: str) -> list[str]:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return [_BAD_CIDR]
    return [] if "/" in text else [_BAD_CIDR]


def changed_service(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A cluster address, once given, stays."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        first = (before.get("clusterIPs") or [""])[0]
        wanted = spec.get("clusterIPs") or []
        at = (_SPEC / "clusterIPs")[0]
        if first and not wanted:
            yield invalid(at, [], "primary clusterIP can not be unset")
        elif first and wanted[0] != first:
            yield invalid(at, list(wanted), "may not change once set")
    yield from service(new)
