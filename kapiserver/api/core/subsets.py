"""Endpoints in their normal form: each set of addresses once, with all the ports they have.

Mirrors RepackSubsets of pkg/api/v1/endpoints; the order of the result is by address and port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kapiserver.api.addresses import address_of
from kapiserver.api.types import Tree

_AddressKey: TypeAlias = tuple[str, str]
_PortKey: TypeAlias = tuple[str, int, str, str]
_States: TypeAlias = frozenset[tuple[_AddressKey, bool]]
"""Addresses, and whether each is ready."""
_KINDS = (("addresses", True), ("notReadyAddresses", False))
_NO_PORT: _PortKey = ("", -1, "", "")


def repacked(subsets: Sequence[Tree]) -> list[Tree]:
    """The subsets regrouped; an address that is not ready for a port anywhere is not ready."""
    addresses: dict[_AddressKey, Tree] = {}
    ports: dict[_PortKey, Tree] = {}
    ready: dict[_PortKey, dict[_AddressKey, bool]] = {}
    for subset in subsets:
        given = {_port_key(port): port for port in subset.get("ports") or ()}
        ports.update(given)
        for kind, is_ready in _KINDS:
            for address in subset.get(kind) or ():
                key = _address_key(address)
                addresses.setdefault(key, address)
                for port in given or (_NO_PORT,):
                    found = ready.setdefault(port, {})
                    found[key] = found.get(key, True) and is_ready
    sharing: dict[_States, list[_PortKey]] = {}
    for port, found in ready.items():
        sharing.setdefault(frozenset(found.items()), []).append(port)
    in_order = sorted(
        sharing.items(), key=lambda one: (min(_rank(key) for key, _ in one[0]), min(one[1]))
    )
    return [_subset(states, keys, addresses, ports) for states, keys in in_order]


def _subset(
    states: _States,
    keys: Sequence[_PortKey],
    addresses: Mapping[_AddressKey, Tree],
    ports: Mapping[_PortKey, Tree],
) -> Tree:
    """One set of addresses with the ports that have it in common."""
    subset: Tree = {}
    for kind, is_ready in _KINDS:
        chosen = sorted((key for key, state in states if state is is_ready), key=_rank)
        if chosen:
            subset[kind] = [addresses[key] for key in chosen]
    numbered = sorted(key for key in keys if key != _NO_PORT)
    if numbered:
        subset["ports"] = [ports[key] for key in numbered]
    return subset


def _address_key(address: Tree) -> _AddressKey:
    return address.get("ip") or "", (address.get("targetRef") or {}).get("uid") or ""


def _port_key(port: Tree) -> _PortKey:
    return (
        port.get("name") or "",
        port.get("port") or 0,
        port.get("protocol") or "",
        port.get("appProtocol") or "",
    )


def _rank(key: _AddressKey) -> tuple[bytes, str]:
    found = address_of(key[0])
    return found.packed if found is not None else b"", key[1]
