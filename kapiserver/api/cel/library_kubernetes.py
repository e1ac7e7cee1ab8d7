"""Kubernetes' own types: URLs, addresses, networks, quantities, versions and named formats.

Mirrors k8s.io/apiserver/pkg/cel/library.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, ClassVar

from kapiserver.api import formats, names, quantity
from kapiserver.api.cel import functions as f
from kapiserver.api.cel import values as v
from kapiserver.api.cel.functions import Row, Table
from kapiserver.api.cel.values import NONE, Failed, Optional

_EXACT = Context(prec=4000, Emax=999_999_999_999, Emin=-999_999_999_999)


@dataclass(frozen=True, slots=True)
class Url:
    """A URL, or the path of one."""

    type_name: ClassVar[str] = "kubernetes.URL"
    parts: urllib.parse.SplitResult


@dataclass(frozen=True, slots=True)
class Ip:
    """An address."""

    type_name: ClassVar[str] = "net.IP"
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network, with the bits of the address that it was written with."""

    type_name: ClassVar[str] = "net.CIDR"
    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount."""

    type_name: ClassVar[str] = "kubernetes.Quantity"
    value: Decimal


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; what it is built from does not count."""

    type_name: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    pre: tuple[tuple[bool, int, str], ...]

    @property
    def order(self) -> Any:
        """What versions are compared by: one without a prerelease comes last."""
        return self.numbers, not self.pre, self.pre


@dataclass(frozen=True, slots=True)
class Format:
    """A named check of texts."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _holds(parse: Callable[..., Any]) -> Callable[..., bool]:
    def run(*args: Any) -> bool:
        try:
            parse(*args)
        except Failed:
            return False
        return True

    return run


def _url(text: str) -> Url:
    if not formats.FORMATS["uri"](text) and text != "*":
        raise Failed(f'URL parse error during conversion from string: parse "{text}": '
                     "invalid URI for request")  # fmt: skip
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port
    except ValueError:
        raise Failed(f'URL parse error during conversion from string: parse "{text}"') from None
    return Url(parts)


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


_PATH_MARKS = "$&+,/:;=@"
_PATH = re.compile(r"(?:%[0-9a-fA-F]{2}|[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]])*")


def _escaped_path(url: Url) -> str:
    # As it is written if that is a way to write it, else as Go does.
    path = url.parts.path
    if not (url.parts.netloc or path.startswith("/")) or path == "*":
        return path if path == "*" else ""  # what follows a scheme without a slash is no path
    if _PATH.fullmatch(path):
        return path
    return urllib.parse.quote(urllib.parse.unquote(path), safe=_PATH_MARKS)


_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")


def _query(url: Url) -> dict[str, list[str]]:
    # What is no pair for Go is left out.
    parts = (one for one in url.parts.query.split("&") if ";" not in one)
    query = "&".join(one for one in parts if not _ESCAPE.search(one))
    try:
        return urllib.parse.parse_qs(query, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise Failed("too many fields in query") from None


def _ip(text: str) -> Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise Failed(f'IP Address "{text}" parse error during conversion from string: '
                     f'ParseAddr("{text}"): unable to parse IP') from None  # fmt: skip
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise Failed(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise Failed(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Ip(address)


def _ip_text(one: Ip) -> str:
    return str(one.address)


_BITS = re.compile("0|[1-9][0-9]{0,2}")


def _cidr(text: str) -> Cidr:
    address, slash, bits = text.rpartition("/")
    try:
        if not slash or _BITS.fullmatch(bits) is None or "%" in text:
            raise ValueError
        return Cidr(ipaddress.ip_interface((_ip(address).address, int(bits))))
    except (ValueError, Failed):
        raise Failed(f'network address parse error during conversion from string: '
                     f'netip.ParsePrefix("{text}"): no valid prefix') from None  # fmt: skip


def _contains_ip(one: Cidr, other: Any) -> bool:
    address = (_ip(other) if isinstance(other, str) else other).address
    return address in one.interface.network


def _contains_cidr(one: Cidr, other: Any) -> bool:
    inner = (_cidr(other) if isinstance(other, str) else other).interface
    outer = one.interface.network
    if inner.version != outer.version:
        return False
    return bool(inner.ip in outer and inner.network.prefixlen >= outer.prefixlen)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantity.parse(text).decimal)
    except ValueError as error:
        raise Failed(str(error)) from None


def _as_integer(one: Quantity) -> int:
    if not _is_integer(one):
        raise Failed("cannot convert value to integer")
    return int(one.value)


def _is_integer(one: Quantity) -> bool:
    if one.value.adjusted() > 20:
        return one.value == 0
    return one.value == one.value.to_integral_value() and -(2**63) <= one.value < 2**63


def _add(one: Quantity, other: Any, sign: int = 1) -> Quantity:
    value = other.value if isinstance(other, Quantity) else Decimal(other)
    return Quantity(_EXACT.add(one.value, sign * value))


def _approximate(one: Quantity) -> float:
    try:
        return float(one.value)
    except OverflowError:
        raise Failed("cannot convert value to float") from None


_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def _semver(text: str, is_loose: bool = False) -> Semver:
    if is_loose:
        text = _normalized(text)
    found = _SEMVER.fullmatch(text)
    parts = found[4].split(".") if found and found[4] else []
    wrong = any(part.isdigit() and part != "0" and part[0] == "0" for part in parts)
    if found is None or wrong or max(map(len, found.group(1, 2, 3))) > 20:
        raise Failed("Invalid character(s) found in version" if text else "Version string empty")
    numbers = (int(found[1]), int(found[2]), int(found[3]))
    pre = tuple(
        (False, int(part[:40]), "") if part.isdigit() else (True, 0, part) for part in parts
    )
    return Semver(numbers, pre)


def _normalized(text: str) -> str:
    # `v1.2` is 1.2.0, `01.2.3` is 1.2.3.
    core = re.match(r"v?([0-9.]*)", text)
    assert core is not None
    parts = [part.lstrip("0") or "0" for part in core[1].split(".")] if core[1] else []
    return ".".join(parts + ["0"] * (3 - len(parts))) + text[core.end() :]


def _order(one: Any, other: Any) -> int:
    left, right = (one.order, other.order) if isinstance(one, Semver) else (one.value, other.value)
    return int(left > right) - int(left < right)


def _prefix(check: names.Check) -> names.Check:
    return names.without_generate_suffix(check)


def _format_check(name: str, words: str) -> names.Check:
    return lambda text: [] if formats.FORMATS[name](text) else [words]


_FORMATS: dict[str, names.Check] = {
    "dns1123Label": names.dns1123_label,
    "dns1123Subdomain": names.dns1123_subdomain,
    "dns1035Label": names.dns1035_label,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": _prefix(names.dns1123_label),
    "dns1123SubdomainPrefix": _prefix(names.dns1123_subdomain),
    "dns1035LabelPrefix": _prefix(names.dns1035_label),
    "labelValue": names.label_value,
    "uri": _format_check("uri", "invalid URI"),
    "uuid": _format_check("uuid", "does not match the UUID format"),
    "byte": _format_check("byte", "invalid base64"),
    "date": _format_check("date", "invalid date"),
    "datetime": _format_check("datetime", "invalid datetime"),
}


def _validate(one: Format, text: str) -> Optional:
    found = _FORMATS[one.name](text)
    return Optional(found) if found else NONE


def _named(name: str) -> Optional:
    return Optional(Format(name)) if name in _FORMATS else NONE


def _compared(kind: str) -> dict[str, list[Row]]:
    return {
        "compareTo": [(f"{kind}.({kind}) int", _order)],
        "isGreaterThan": [(f"{kind}.({kind}) bool", lambda a, b: _order(a, b) > 0)],
        "isLessThan": [(f"{kind}.({kind}) bool", lambda a, b: _order(a, b) < 0)],
    }


def _flag(name: str) -> list[Row]:
    return [("ip.() bool", lambda one: bool(getattr(one.address, name)))]


def _is_multicast(one: Ip) -> bool:
    scope = one.address.packed
    is_v4 = one.address.version == 4
    return scope[:3] == b"\xe0\0\0" if is_v4 else scope[0] == 0xFF and scope[1] & 0x0F == 2


def _is_global(one: Ip) -> bool:
    address = one.address
    special = (address.is_unspecified, address.is_loopback, address.is_multicast)
    broadcast = address.packed == b"\xff\xff\xff\xff"
    return not any(special) and not address.is_link_local and not broadcast


FUNCTIONS: Table = {
    "url": [("(string) url", _url, f.first)],
    "isURL": [("(string) bool", _holds(_url), f.first)],
    "getScheme": [("url.() string", lambda one: one.parts.scheme)],
    "getHost": [("url.() string", _host)],
    "getHostname": [("url.() string", _hostname)],
    "getPort": [("url.() string", lambda one: str(one.parts.port or ""))],
    "getEscapedPath": [("url.() string", _escaped_path)],
    "getQuery": [("url.() map(string, list(string))", _query)],
    "ip": [("(string) ip", _ip, f.first), ("cidr.() ip", lambda one: Ip(one.interface.ip))],
    "isIP": [("(string) bool", _holds(_ip), f.first)],
    "ip.isCanonical": [("(string) bool", lambda one: _ip_text(_ip(one)) == one, f.twice)],
    "family": [("ip.() int", lambda one: one.address.version)],
    "isUnspecified": _flag("is_unspecified"),
    "isLoopback": _flag("is_loopback"),
    "isLinkLocalMulticast": [("ip.() bool", _is_multicast)],
    "isLinkLocalUnicast": _flag("is_link_local"),
    "isGlobalUnicast": [("ip.() bool", _is_global)],
    "cidr": [("(string) cidr", _cidr, f.first)],
    "isCIDR": [("(string) bool", _holds(_cidr), f.first)],
    "containsIP": [(f"cidr.({kind}) bool", _contains_ip, f.second) for kind in ("ip", "string")],
    "containsCIDR": [
        (f"cidr.({kind}) bool", _contains_cidr, f.second) for kind in ("cidr", "string")
    ],
    "masked": [("cidr.() cidr", lambda one: Cidr(ipaddress.ip_interface(one.interface.network)))],
    "prefixLength": [("cidr.() int", lambda one: one.interface.network.prefixlen)],
    "string": [
        ("(ip) string", _ip_text, f.flat, lambda _: 45),
        ("(cidr) string", lambda one: str(one.interface), f.flat, lambda _: 49),
    ],
    "quantity": [("(string) quantity", _quantity, f.first)],
    "isQuantity": [("(string) bool", _holds(_quantity), f.first)],
    "sign": [("quantity.() int", lambda one: int(one.value > 0) - int(one.value < 0))],
    "isInteger": [("quantity.() bool", _is_integer)],
    "asInteger": [("quantity.() int", _as_integer)],
    "asApproximateFloat": [("quantity.() double", _approximate)],
    "add": [(f"quantity.({kind}) quantity", _add) for kind in ("quantity", "int")],
    "sub": [
        (f"quantity.({kind}) quantity", lambda one, other: _add(one, other, -1))
        for kind in ("quantity", "int")
    ],
    **{name: rows + _compared("semver")[name] for name, rows in _compared("quantity").items()},
    "semver": [("(string) semver", _semver, f.first), ("(string, bool) semver", _semver, f.first)],
    "isSemver": [
        ("(string) bool", _holds(_semver), f.first),
        ("(string, bool) bool", _holds(_semver), f.first),
    ],
    "major": [("semver.() int", lambda one: v.int_of(one.numbers[0]))],
    "minor": [("semver.() int", lambda one: v.int_of(one.numbers[1]))],
    "patch": [("semver.() int", lambda one: v.int_of(one.numbers[2]))],
    "format.named": [("(string) optional(format)", _named)],
    **{f"format.{name}": [("() format", lambda name=name: Format(name))] for name in _FORMATS},
    "validate": [("format.(string) optional(list(string))", _validate, f.second)],
}
