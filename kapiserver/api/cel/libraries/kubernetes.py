"""Kubernetes' CEL libraries: URLs, IP addresses, CIDRs, quantities, semantic versions, formats.

Mirrors k8s.io/apiserver/pkg/cel/library.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, ClassVar

from msgspec import Struct

from kapiserver.api import formats, names, quantity
from kapiserver.api.cel import functions as f
from kapiserver.api.cel import values as v
from kapiserver.api.cel.functions import Row, Table
from kapiserver.api.cel.values import NONE, EvaluationError, Optional

_EXACT = Context(prec=4000, Emax=999_999_999_999, Emin=-999_999_999_999)


class Url(Struct, frozen=True):
    """A URL, or the path of a URL."""

    type_name: ClassVar[str] = "kubernetes.URL"
    parts: urllib.parse.SplitResult


class Ip(Struct, frozen=True):
    """An IP address."""

    type_name: ClassVar[str] = "net.IP"
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


class Cidr(Struct, frozen=True):
    """A network, including the host bits of its address."""

    type_name: ClassVar[str] = "net.CIDR"
    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


class Quantity(Struct, frozen=True, order=True):
    """A quantity."""

    type_name: ClassVar[str] = "kubernetes.Quantity"
    value: Decimal


class Semver(Struct, frozen=True):
    """A semantic version without its build metadata."""

    type_name: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    pre: tuple[tuple[bool, int, str], ...]

    @property
    def order(self) -> Any:
        """The sort key: a version without a prerelease comes last."""
        return self.numbers, not self.pre, self.pre


class Format(Struct, frozen=True):
    """A named format."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _succeeds(parse: Callable[..., Any]) -> Callable[..., bool]:
    def run(*args: Any) -> bool:
        try:
            parse(*args)
        except EvaluationError:
            return False
        return True

    return run


def _url(text: str) -> Url:
    if not formats.FORMATS["uri"](text) and text != "*":
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": '
                     "invalid URI for request")  # fmt: skip
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port
    except ValueError:
        raise EvaluationError(
            f'URL parse error during conversion from string: parse "{text}"'
        ) from None
    return Url(parts)


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


_PATH_MARKS = "$&+,/:;=@"
_PATH = re.compile(r"(?:%[0-9a-fA-F]{2}|[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]])*")


def _escaped_path(url: Url) -> str:
    # The path is returned as written if it is validly escaped, and else as Go escapes it.
    path = url.parts.path
    if not (url.parts.netloc or path.startswith("/")) or path == "*":
        return path if path == "*" else ""  # an opaque URL has no path
    if _PATH.fullmatch(path):
        return path
    return urllib.parse.quote(urllib.parse.unquote(path), safe=_PATH_MARKS)


_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")


def _query(url: Url) -> dict[str, list[str]]:
    # Parts that Go cannot parse are dropped.
    parts = (part for part in url.parts.query.split("&") if ";" not in part)
    query = "&".join(part for part in parts if not _ESCAPE.search(part))
    try:
        return urllib.parse.parse_qs(query, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise EvaluationError("too many fields in query") from None


def _ip(text: str) -> Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string: '
                     f'ParseAddr("{text}"): unable to parse IP') from None  # fmt: skip
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Ip(address)


def _ip_text(ip: Ip) -> str:
    return str(ip.address)


_BITS = re.compile("0|[1-9][0-9]{0,2}")


def _cidr(text: str) -> Cidr:
    address, slash, bits = text.rpartition("/")
    try:
        if not slash or _BITS.fullmatch(bits) is None or "%" in text:
            raise ValueError
        return Cidr(ipaddress.ip_interface((_ip(address).address, int(bits))))
    except (ValueError, EvaluationError):
        raise EvaluationError(f'network address parse error during conversion from string: '
                     f'netip.ParsePrefix("{text}"): no valid prefix') from None  # fmt: skip


def _contains_ip(cidr: Cidr, argument: Any) -> bool:
    address = (_ip(argument) if isinstance(argument, str) else argument).address
    return address in cidr.interface.network


def _contains_cidr(cidr: Cidr, argument: Any) -> bool:
    inner = (_cidr(argument) if isinstance(argument, str) else argument).interface
    outer = cidr.interface.network
    if inner.version != outer.version:
        return False
    return bool(inner.ip in outer and inner.network.prefixlen >= outer.prefixlen)


def quantity_of(text: str) -> Quantity:
    """Parse a quantity. Raises EvaluationError."""
    try:
        return Quantity(quantity.parse(text).decimal)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _as_integer(amount: Quantity) -> int:
    if not _is_integer(amount):
        raise EvaluationError("cannot convert value to integer")
    return int(amount.value)


def _is_integer(amount: Quantity) -> bool:
    if amount.value.adjusted() > 20:
        return amount.value == 0
    return amount.value == amount.value.to_integral_value() and -(2**63) <= amount.value < 2**63


def _decimal(operand: Any) -> Decimal:
    return operand.value if isinstance(operand, Quantity) else Decimal(operand)


def _add(left: Quantity, right: Any) -> Quantity:
    return Quantity(_EXACT.add(left.value, _decimal(right)))


def _subtract(left: Quantity, right: Any) -> Quantity:
    return Quantity(_EXACT.subtract(left.value, _decimal(right)))


def _approximate(amount: Quantity) -> float:
    try:
        return float(amount.value)
    except OverflowError:
        raise EvaluationError("cannot convert value to float") from None


_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def semver_of(text: str, is_loose: bool = False) -> Semver:
    """Parse a semantic version; a loose one may have a `v`, leading zeros and fewer numbers. Raises
    EvaluationError."""
    if is_loose:
        text = _normalized(text)
    match = _SEMVER.fullmatch(text)
    parts = match[4].split(".") if match and match[4] else []
    has_leading_zero = any(part.isdigit() and part != "0" and part[0] == "0" for part in parts)
    if match is None or has_leading_zero or max(map(len, match.group(1, 2, 3))) > 20:
        raise EvaluationError(
            "Invalid character(s) found in version" if text else "Version string empty"
        )
    numbers = (int(match[1]), int(match[2]), int(match[3]))
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


def _order(left_value: Any, right_value: Any) -> int:
    left, right = (
        (left_value.order, right_value.order)
        if isinstance(left_value, Semver)
        else (left_value.value, right_value.value)
    )
    return int(left > right) - int(left < right)


def _prefix(check: names.Check) -> names.Check:
    return names.without_generate_suffix(check)


def _format_check(name: str, message: str) -> names.Check:
    return lambda text: [] if formats.FORMATS[name](text) else [message]


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


def _validate(named_format: Format, text: str) -> Optional:
    messages = _FORMATS[named_format.name](text)
    return Optional(messages) if messages else NONE


def _named(name: str) -> Optional:
    return Optional(Format(name)) if name in _FORMATS else NONE


def _comparisons(kind: str) -> dict[str, list[Row]]:
    return {
        "compareTo": [(f"{kind}.({kind}) int", _order)],
        "isGreaterThan": [(f"{kind}.({kind}) bool", lambda a, b: _order(a, b) > 0)],
        "isLessThan": [(f"{kind}.({kind}) bool", lambda a, b: _order(a, b) < 0)],
    }


def _ip_property(name: str) -> list[Row]:
    return [("ip.() bool", lambda value: bool(getattr(value.address, name)))]


def _is_multicast(ip: Ip) -> bool:
    packed = ip.address.packed
    is_v4 = ip.address.version == 4
    return packed[:3] == b"\xe0\0\0" if is_v4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global(ip: Ip) -> bool:
    address = ip.address
    special = (address.is_unspecified, address.is_loopback, address.is_multicast)
    broadcast = address.packed == b"\xff\xff\xff\xff"
    return not any(special) and not address.is_link_local and not broadcast


FUNCTIONS: Table = {
    "url": [("(string) url", _url, f.cost_first)],
    "isURL": [("(string) bool", _succeeds(_url), f.cost_first)],
    "getScheme": [("url.() string", lambda value: value.parts.scheme)],
    "getHost": [("url.() string", _host)],
    "getHostname": [("url.() string", _hostname)],
    "getPort": [("url.() string", lambda value: str(value.parts.port or ""))],
    "getEscapedPath": [("url.() string", _escaped_path)],
    "getQuery": [("url.() map(string, list(string))", _query)],
    "ip": [
        ("(string) ip", _ip, f.cost_first),
        ("cidr.() ip", lambda value: Ip(value.interface.ip)),
    ],
    "isIP": [("(string) bool", _succeeds(_ip), f.cost_first)],
    "ip.isCanonical": [
        ("(string) bool", lambda value: _ip_text(_ip(value)) == value, f.cost_first_twice)
    ],
    "family": [("ip.() int", lambda value: value.address.version)],
    "isUnspecified": _ip_property("is_unspecified"),
    "isLoopback": _ip_property("is_loopback"),
    "isLinkLocalMulticast": [("ip.() bool", _is_multicast)],
    "isLinkLocalUnicast": _ip_property("is_link_local"),
    "isGlobalUnicast": [("ip.() bool", _is_global)],
    "cidr": [("(string) cidr", _cidr, f.cost_first)],
    "isCIDR": [("(string) bool", _succeeds(_cidr), f.cost_first)],
    "containsIP": [
        (f"cidr.({kind}) bool", _contains_ip, f.cost_second) for kind in ("ip", "string")
    ],
    "containsCIDR": [
        (f"cidr.({kind}) bool", _contains_cidr, f.cost_second) for kind in ("cidr", "string")
    ],
    "masked": [
        ("cidr.() cidr", lambda value: Cidr(ipaddress.ip_interface(value.interface.network)))
    ],
    "prefixLength": [("cidr.() int", lambda value: value.interface.network.prefixlen)],
    "string": [
        ("(ip) string", _ip_text, f.cost_constant, lambda _: 45),
        ("(cidr) string", lambda value: str(value.interface), f.cost_constant, lambda _: 49),
    ],
    "quantity": [("(string) quantity", quantity_of, f.cost_first)],
    "isQuantity": [("(string) bool", _succeeds(quantity_of), f.cost_first)],
    "sign": [("quantity.() int", lambda value: int(value.value > 0) - int(value.value < 0))],
    "isInteger": [("quantity.() bool", _is_integer)],
    "asInteger": [("quantity.() int", _as_integer)],
    "asApproximateFloat": [("quantity.() double", _approximate)],
    "add": [(f"quantity.({kind}) quantity", _add) for kind in ("quantity", "int")],
    "sub": [(f"quantity.({kind}) quantity", _subtract) for kind in ("quantity", "int")],
    **{
        name: rows + _comparisons("semver")[name] for name, rows in _comparisons("quantity").items()
    },
    "semver": [
        ("(string) semver", semver_of, f.cost_first),
        ("(string, bool) semver", semver_of, f.cost_first),
    ],
    "isSemver": [
        ("(string) bool", _succeeds(semver_of), f.cost_first),
        ("(string, bool) bool", _succeeds(semver_of), f.cost_first),
    ],
    "major": [("semver.() int", lambda value: v.int_of(value.numbers[0]))],
    "minor": [("semver.() int", lambda value: v.int_of(value.numbers[1]))],
    "patch": [("semver.() int", lambda value: v.int_of(value.numbers[2]))],
    "format.named": [("(string) optional(format)", _named)],
    **{f"format.{name}": [("() format", lambda name=name: Format(name))] for name in _FORMATS},
    "validate": [("format.(string) optional(list(string))", _validate, f.cost_second)],
}
