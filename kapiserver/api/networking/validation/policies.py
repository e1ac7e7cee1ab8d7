"""Validation of network policies."""

from __future__ import annotations

from collections.abc import Container, Iterator

from kapiserver.api import addresses, names
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
DIRECTIONS = (("ingress", "from"), ("egress", "to"))
"""The rule lists of a policy, and the field of their peers."""


def validate_network_policy(obj: Tree) -> Iterator[FieldError]:
    """Validate a new network policy."""
    return _validate_policy(obj, {})


def validate_network_policy_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated network policy. Networks and labels of the old policy need not be
    valid."""
    return _validate_policy(new, old.get("spec") or {})


def _named_networks(spec: Tree) -> Iterator[str]:
    for direction, peers_field in DIRECTIONS:
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers_field) or ():
                block = peer.get("ipBlock") or {}
                yield from (block.get("cidr") or "", *(block.get("except") or ()))


def _validate_policy(obj: Tree, old: Tree) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    old_networks = frozenset(_named_networks(old))
    old_pod_selector = old.get("podSelector")
    field_path = _SPEC / "podSelector"
    yield from validate_label_selector(spec.get("podSelector"), field_path, before=old_pod_selector)
    for direction, peers_field in DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            field_path = (_SPEC / direction)[index]
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _validate_port(port, (field_path / "ports")[number])
            for number, peer in enumerate(rule.get(peers_field) or ()):
                yield from _validate_peer(
                    peer, (field_path / peers_field)[number], old_networks, old_pod_selector
                )
    types, path = spec.get("policyTypes") or [], _SPEC / "policyTypes"
    if len(types) > len(_TYPES):
        yield invalid(path, types, "may not specify more than two policyTypes")
        return
    for index, type_ in enumerate(types):
        if type_ not in _TYPES:
            yield not_supported_in_order(path[index], type_, _TYPES)


def _validate_port(port: Tree, path: Path) -> Iterator[FieldError]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported_in_order(path / "protocol", protocol, _PROTOCOLS)
    if number is None:
        if end is not None:
            detail = "may not be specified when `port` is not specified"
            yield invalid(path / "endPort", end, detail)
    elif isinstance(number, str):
        if end is not None:
            detail = "may not be specified when `port` is non-numeric"
            yield invalid(path / "endPort", end, detail)
        yield from validate_format(names.port_name, number, path / "port")
    else:
        for message in names.port_number(number):
            yield invalid(path / "port", number, message)
        if end is not None:
            if end < number:
                yield invalid(path / "endPort", end, "must be greater than or equal to `port`")
            for message in names.port_number(end):
                yield invalid(path / "endPort", end, message)


def _validate_peer(
    peer: Tree, path: Path, old_networks: Container[str], old_peer: Tree | None
) -> Iterator[FieldError]:
    block = peer.get("ipBlock")
    members = [
        selector_field
        for selector_field in ("podSelector", "namespaceSelector")
        if peer.get(selector_field) is not None
    ]
    for name in members:
        yield from validate_label_selector(peer[name], path / name, before=old_peer)
    if block is not None:
        yield from _validate_ip_block(block, path / "ipBlock", old_networks)
        if members:
            yield forbidden(path, "may not specify both ipBlock and another peer")
    elif not members:
        yield required(path, "must specify a peer")


def _validate_ip_block(
    ip_block: Tree, path: Path, old_networks: Container[str]
) -> Iterator[FieldError]:
    text = ip_block.get("cidr") or ""
    if not text:
        yield required(path / "cidr")
        return
    yield from validate_format(addresses.cidr, text, path / "cidr", old_values=old_networks)
    network = addresses.network_of(text)
    for index, excluded in enumerate(ip_block.get("except") or () if network is not None else ()):
        excluded_path = (path / "except")[index]
        yield from validate_format(addresses.cidr, excluded, excluded_path, old_values=old_networks)
        inner_network = addresses.network_of(excluded)
        if inner_network is not None and not addresses.is_strictly_in(inner_network, network):
            yield invalid(excluded_path, excluded, "must be a strict subset of `cidr`")
