"""Rules for network policies."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import addresses, names
from kapiserver.api.core.validation.common import PROTOCOLS, checked
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.label_selectors import validate_label_selector
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_TYPES = ("Egress", "Ingress")
DIRECTIONS = (("ingress", "from"), ("egress", "to"))
"""The rules of a policy, and what they call the other side."""


def network_policy(obj: Tree) -> Iterator[FieldError]:
    """A network policy, new or changed."""
    spec = obj.get("spec") or {}
    yield from validate_label_selector(spec.get("podSelector"), _SPEC / "podSelector")
    for direction, side in DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            at = (_SPEC / direction)[index]
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _port(port, (at / "ports")[number])
            for number, peer in enumerate(rule.get(side) or ()):
                yield from _peer(peer, (at / side)[number])
    types, path = spec.get("policyTypes") or [], _SPEC / "policyTypes"
    if len(types) > len(_TYPES):
        yield invalid(path, types, "may not specify more than two policyTypes")
        return
    for index, one in enumerate(types):
        if one not in _TYPES:
            yield not_supported(path[index], one, _TYPES)


def _port(port: Tree, path: Path) -> Iterator[FieldError]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in PROTOCOLS:
        yield not_supported(path / "protocol", protocol, PROTOCOLS)
    if number is None:
        if end is not None:
            detail = "may not be specified when `port` is not specified"
            yield invalid(path / "endPort", end, detail)
    elif isinstance(number, str):
        if end is not None:
            detail = "may not be specified when `port` is non-numeric"
            yield invalid(path / "endPort", end, detail)
        yield from checked(names.port_name, number, path / "port")
    else:
        for message in names.port_number(number):
            yield invalid(path / "port", number, message)
        if end is not None:
            if end < number:
                yield invalid(path / "endPort", number, "must be greater than or equal to `port`")
            for message in names.port_number(end):
                yield invalid(path / "endPort", end, message)


def _peer(peer: Tree, path: Path) -> Iterator[FieldError]:
    block = peer.get("ipBlock")
    given = [one for one in ("podSelector", "namespaceSelector") if peer.get(one) is not None]
    for name in given:
        yield from validate_label_selector(peer[name], path / name)
    if block is not None:
        yield from _block(block, path / "ipBlock")
        if given:
            yield forbidden(path, "may not specify both ipBlock and another peer")
    elif not given:
        yield required(path, "must specify a peer")


def _block(block: Tree, path: Path) -> Iterator[FieldError]:
    text = block.get("cidr") or ""
    if not text:
        yield required(path / "cidr")
        return
    yield from checked(addresses.cidr, text, path / "cidr")
    whole = addresses.network_of(text)
    for index, inner in enumerate(block.get("except") or () if whole is not None else ()):
        at = (path / "except")[index]
        yield from checked(addresses.cidr, inner, at)
        part = addresses.network_of(inner)
        if part is not None and not addresses.is_strictly_in(part, whole):
            yield invalid(at, inner, "must be a strict subset of `cidr`")
