"""Checks of IP addresses and CIDR networks given as text, and warnings about their spelling.

Every check returns kube-apiserver's error messages; an empty list means that the text is valid.
Leading zeros and IPv4-mapped IPv6 addresses are parsed, as Go once did, only to report them. Knows
no kind. Mirrors pkg/util/validation/ip.go of k8s.io/apimachinery.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterator
from typing import TypeAlias

from kapiserver.api.errors import Path

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_PREFIX_DIGITS = 3
_TEXT_MAX = 64
"""No valid address or network is longer, whatever its leading zeros."""


def ip(text: str) -> list[str]:
    """Check an IP address without leading zeros that is not IPv4-mapped."""
    address = address_of(text)
    if address is None:
        return [_NO_IP]
    if _has_zeros(text):
        return ["must not have leading 0s"]
    return ["must not be an IPv4-mapped IPv6 address"] if _mapped(address) else []


def canonical_ip(text: str) -> list[str]:
    """Check an IP address in its canonical form."""
    messages = ip(text)
    address = address_of(text)
    if not messages and str(address) != text:
        messages.append(f'must be in canonical form ("{address}")')
    return messages


def ordinary_ip(text: str) -> list[str]:
    """Check that an address is not unspecified, loopback or link-local."""
    address = address_of(text)
    if address is None:
        return ["must be a valid IP address"]
    link_local_multicast = address.is_multicast and (
        address.packed[:3] == b"\xe0\0\0" if address.version == 4 else address.packed[1] & 0x0F == 2
    )
    return [
        message
        for is_refused, message in (
            (address.is_unspecified, f"may not be unspecified ({text})"),
            (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            (
                address.is_link_local,
                "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
            ),
            (
                link_local_multicast,
                "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
        )
        if is_refused
    ]


def family_of(text: str) -> int:
    """Return 4 or 6, the IP family of an address; 0 if the text is not an address."""
    address = address_of(text)
    return 0 if address is None else _family(address)


def cidr(text: str) -> list[str]:
    """Check a network without leading zeros and without bits set beyond the prefix length."""
    address, network = address_of(text.rpartition("/")[0]), network_of(text)
    if network is None or address is None:
        return [_NO_CIDR]
    if _spelled_with_zeros(text):
        return ["must not have leading 0s in IP or prefix length"]
    if _mapped(address):
        return ["must not have an IPv4-mapped IPv6 address"]
    if address != network.network_address:
        return ["must not have bits set beyond the prefix length"]
    return []


def canonical_cidr(text: str) -> list[str]:
    """Check a network in its canonical form."""
    messages = cidr(text)
    network = network_of(text)
    if not messages and str(network) != text:
        messages.append(f'must be in canonical form ("{network}")')
    return messages


def ip_warnings(text: str, path: Path) -> Iterator[str]:
    """Yield warnings about a valid address that is not in its canonical form."""
    address = address_of(text)
    if address is None:
        return
    if _has_zeros(text) or _mapped(address):
        subject = f'non-standard IP address "{text}" will be considered invalid in a future'
        yield f'{path}: {subject} Kubernetes release: use "{_plain(address)}"'
    elif address.version == 6 and str(address) != text:
        yield f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")'


def cidr_warnings(text: str, path: Path) -> Iterator[str]:
    """Yield warnings about a valid network that is not in its canonical form."""
    address, network = address_of(text.rpartition("/")[0]), network_of(text)
    if address is None or network is None:
        return
    canonical = _plain_network(network)
    if address != network.network_address:
        host = f"{_plain(address)}/{address.max_prefixlen}"
        subject = f'CIDR value "{text}" is ambiguous in this context'
        yield f'{path}: {subject} (should be "{canonical}" or "{host}"?)'
    if _spelled_with_zeros(text) or _mapped(address):
        subject = f'non-standard CIDR value "{text}" will be considered invalid in a future'
        yield f'{path}: {subject} Kubernetes release: use "{canonical}"'
    elif address == network.network_address and address.version == 6 and str(network) != text:
        subject = f'IPv6 CIDR value "{text}" should be in RFC 5952 canonical format'
        yield f'{path}: {subject} ("{network}")'


@functools.lru_cache(maxsize=1024)  # each check of a text parses it again
def address_of(text: str) -> Address | None:
    """Parse an address, leading zeros allowed. Returns None if the text is not an address."""
    if len(text) > _TEXT_MAX or "%" in text or not text.isascii():
        return None
    try:
        return ipaddress.ip_address(_without_zeros(text) if ":" not in text else text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def network_of(text: str) -> Network | None:
    """Parse a network and clear the bits beyond its prefix. Returns None if the text is not one."""
    address, slash, prefix = text.rpartition("/")
    parsed = address_of(address)
    if parsed is None or not slash or not (prefix.isascii() and prefix.isdigit()):
        return None
    bits = prefix.lstrip("0") or "0"
    if len(bits) > _PREFIX_DIGITS:
        return None
    try:
        return ipaddress.ip_network((parsed, int(bits)), strict=False)
    except ValueError:
        return None


def _without_zeros(text: str) -> str:
    return ".".join(part.lstrip("0") or part[-1:] for part in text.split("."))


def _has_zeros(text: str) -> bool:
    return ":" not in text and _without_zeros(text) != text


def _spelled_with_zeros(network: str) -> bool:
    address, _, prefix = network.rpartition("/")
    return _has_zeros(address) or (prefix != "0" and prefix.startswith("0"))


def _mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _plain(address: Address) -> Address:
    # Go prints an IPv4-mapped IPv6 address as the IPv4 address.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _plain_network(network: Network) -> str:
    address = network.network_address
    length = network.prefixlen - (96 if _mapped(address) else 0)
    return f"{_plain(address)}/{length}"


def _family(address: Address) -> int:
    return 4 if _mapped(address) else address.version


def is_strictly_in(subnet: Network, network: Network | None) -> bool:
    """Report whether one network is a proper subnet of another."""
    if isinstance(subnet, ipaddress.IPv4Network) and isinstance(network, ipaddress.IPv4Network):
        return subnet != network and subnet.subnet_of(network)
    if isinstance(subnet, ipaddress.IPv6Network) and isinstance(network, ipaddress.IPv6Network):
        return subnet != network and subnet.subnet_of(network)
    return False
