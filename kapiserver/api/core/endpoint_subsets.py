"""The canonical form of endpoints subsets: each set of addresses once, with all the ports that it
has.

Mirrors RepackSubsets of pkg/api/v1/endpoints. The result is sorted by address and port.
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
_ADDRESS_LISTS = (("addresses", True), ("notReadyAddresses", False))
_NO_PORT: _PortKey = ("", -1, "", "")


def repack_subsets(subsets: Sequence[Tree]) -> list[Tree]:
    """Return the regrouped subsets. An address that is not ready for a port in one subset is not
    ready for it in the result."""
    addresses: dict[_AddressKey, Tree] = {}
    ports: dict[_PortKey, Tree] = {}
    ready: dict[_PortKey, dict[_AddressKey, bool]] = {}
    for subset in subsets:
        subset_ports = {_port_key(port): port for port in subset.get("ports") or ()}
        ports.update(subset_ports)
        for kind, is_ready in _ADDRESS_LISTS:
            for address in subset.get(kind) or ():
                key = _address_key(address)
                addresses.setdefault(key, address)
                for port in subset_ports or (_NO_PORT,):
                    states = ready.setdefault(port, {})
                    states[key] = states.get(key, True) and is_ready
    ports_by_states: dict[_States, list[_PortKey]] = {}
    for port, states in ready.items():
        ports_by_states.setdefault(frozenset(states.items()), []).append(port)
    groups = sorted(
        ports_by_states.items(),
        key=lambda item: (min(_sort_key(key) for key, _ in item[0]), min(item[1])),
    )
    return [_subset(states, keys, addresses, ports) for states, keys in groups]


def _subset(
    states: _States,
    keys: Sequence[_PortKey],
    addresses: Mapping[_AddressKey, Tree],
    ports: Mapping[_PortKey, Tree],
) -> Tree:
    """Return the subset of these addresses and ports."""
    subset: Tree = {}
    for kind, is_ready in _ADDRESS_LISTS:
        address_keys = sorted((key for key, state in states if state is is_ready), key=_sort_key)
        if address_keys:
            subset[kind] = [addresses[key] for key in address_keys]
    port_keys = sorted(key for key in keys if key != _NO_PORT)
    if port_keys:
        subset["ports"] = [ports[key] for key in port_keys]
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


def _sort_key(key: _AddressKey) -> tuple[bytes, str]:
    address = address_of(key[0])
    return address.packed if address is not None else b"", key[1]
