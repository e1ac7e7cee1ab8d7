"""Checks of the string formats that a schema may name.

A format that is not in FORMATS is not checked. Every check is linear in the length of the text.
Knows no schema. Mirrors k8s.io/kube-openapi/pkg/validation/strfmt.
"""

from __future__ import annotations

import ipaddress
import re
import string
import unicodedata
from collections.abc import Callable
from datetime import date

from kapiserver.api import names, quantity

_HEX = frozenset(string.hexdigits)
_DIGITS = frozenset(string.digits)
_ATOM = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-/=?^_`{|}~")
_HOST_MAX = 255
_LABEL_MAX = 63

_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_PATTERNS = {
    "bsonobjectid": re.compile("[0-9a-fA-F]{24}"),
    "uuid": re.compile(_UUID % ("[0-9a-f]{4}", "[0-9a-f]{4}"), re.IGNORECASE | re.ASCII),
    "uuid3": re.compile(_UUID % ("3[0-9a-f]{3}", "[0-9a-f]{4}"), re.IGNORECASE | re.ASCII),
    "uuid4": re.compile(_UUID % ("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"), re.IGNORECASE | re.ASCII),
    "uuid5": re.compile(_UUID % ("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"), re.IGNORECASE | re.ASCII),
    "ssn": re.compile(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": re.compile("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "byte": re.compile(
        "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
    ),
}
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_GO_DURATION = re.compile(
    "[+-]?+(?=.)(?:(?:[0-9]++(?:[.][0-9]*+)?+|[.][0-9]++)(?:ns|us|µs|μs|ms|s|m|h))*+0*+"
)
_WORD_DURATION = re.compile(r"(?<![0-9])[0-9]++\s*+([A-Za-zµ]++)")
_DURATION_UNITS = ("ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "m", "h", "d", "w")
_CARD = re.compile(
    "4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    "|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11}"
)
_RGB = re.compile(r"rgb\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)")
_ISBN_WEIGHTS = {10: range(10, 0, -1), 13: (1, 3) * 6 + (1,)}


def has_format(name: str, text: str) -> bool:
    """Report whether the text has the format; true for unknown formats."""
    check = FORMATS.get(name.replace("-", ""))
    return check is None or check(text)


def is_date(text: str) -> bool:
    """Check a date: `2006-01-02`."""
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Check a timestamp of RFC 3339: `2006-01-02T15:04:05.000Z`."""
    day, letter, time = text.lower().partition("t")
    match = _TIME.fullmatch(time)
    if not letter or match is None or not is_date(day):
        return False
    return int(match[1]) <= 23 and int(match[2]) <= 59 and int(match[3]) <= 59


def is_duration(text: str) -> bool:
    """Check a duration: `1h30m` as in Go, or `22 ns`, `3 days`."""
    if _GO_DURATION.fullmatch(text):
        return True
    units = _WORD_DURATION.findall(text)
    return bool(units) and all(unit.lower().startswith(_DURATION_UNITS) for unit in units)


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    if not text or any(char < " " or char == "\x7f" for char in text):
        return False
    scheme = _SCHEME.match(text)
    hierarchy = text[scheme.end() :] if scheme else text
    if not hierarchy.startswith("/"):
        return text == "*" or (scheme is not None and bool(hierarchy))
    if hierarchy.startswith("//") and (scheme or not hierarchy.startswith("///")):
        host = re.split("[/?]", hierarchy[2:], maxsplit=1)[0].rpartition("@")[2]
        port = host.rpartition(":")[2] if ":" in host and not host.endswith("]") else ""
        if set(' <>"\\^`{|}') & set(host) or not _DIGITS.issuperset(port):
            return False
    path = hierarchy.partition("?")[0]
    return all(_HEX.issuperset(part[:2]) and len(part) > 1 for part in path.split("%")[1:])


def _is_email(text: str) -> bool:
    address = text.strip()
    if address.endswith(">"):
        address = address[:-1].rpartition("<")[2]
    local, _, domain = address.rpartition("@")
    quoted = len(local) > 1 and local[0] == local[-1] == '"' and '"' not in local[1:-1]
    return (quoted or _is_dot_atom(local)) and _is_dot_atom(domain)


def _is_dot_atom(text: str) -> bool:
    return all(
        part and all(char in _ATOM or char > "\x7f" for char in part) for part in text.split(".")
    )


def _is_hostname(text: str) -> bool:
    if not text or names.byte_length(text) > _HOST_MAX:
        return False
    *labels, last = text.split(".")
    if any(not _is_label(label) for label in labels):
        return False
    if not labels:
        return _is_label(last) and "-" not in last[2:]
    return len(last) > 1 and _is_label(last) and "--" not in last


def _is_label(text: str) -> bool:
    return (
        0 < len(text) <= _LABEL_MAX
        and text[0] != "-" != text[-1]
        and all(char == "-" or _is_word(char) for char in text)
    )


def _is_word(char: str) -> bool:
    return char in _DIGITS or unicodedata.category(char)[0] in "LS"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_ipv4(text: str) -> bool:
    return "." in text and _address(text) is not None


def _is_ipv6(text: str) -> bool:
    return ":" in text and _address(text) is not None


def _is_cidr(text: str) -> bool:
    address, _, bits = text.rpartition("/")
    parsed = _address(address)
    if parsed is None or not bits or not _DIGITS.issuperset(bits) or len(bits) > 3:
        return False
    return int(bits) <= parsed.max_prefixlen


def _is_mac(text: str) -> bool:
    separator = next((char for char in ":-." if char in text), "")
    if not separator:
        return False
    parts = text.split(separator)
    width = 4 if separator == "." else 2
    octets = len(parts) * width // 2
    return octets in (6, 8, 20) and all(
        len(part) == width and _HEX.issuperset(part) for part in parts
    )


def _isbn(length: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        digits = text.replace(" ", "").replace("-", "")
        if len(digits) != length or not _DIGITS.issuperset(digits[:-1]):
            return False
        last = 10 if digits[-1] in "xX" and length == 10 else _digit(digits[-1])
        if last < 0:
            return False
        values = [int(char) for char in digits[:-1]] + [last]
        total = sum(a * b for a, b in zip(values, _ISBN_WEIGHTS[length], strict=True))
        return total % (11 if length == 10 else 10) == 0

    return check


def _digit(char: str) -> int:
    return int(char) if char in _DIGITS else -1


def _is_isbn(text: str) -> bool:
    return FORMATS["isbn10"](text) or FORMATS["isbn13"](text)


def _is_card(text: str) -> bool:
    digits = "".join(char for char in text if char in _DIGITS)
    if not _CARD.fullmatch(digits):
        return False
    odd = sum(map(int, digits[::-1][::2]))
    even = sum(sum(divmod(int(char) * 2, 10)) for char in digits[::-1][1::2])
    return (odd + even) % 10 == 0


def _is_rgb(text: str) -> bool:
    match = _RGB.fullmatch(text)
    return match is not None and all(int(component) <= 255 for component in match.groups())


def _pattern(name: str) -> Callable[[str], bool]:
    pattern = _PATTERNS[name]
    return lambda text: pattern.fullmatch(text) is not None


FORMATS: dict[str, Callable[[str], bool]] = {
    **{name: _pattern(name) for name in _PATTERNS},
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "isbn": _is_isbn,
    "isbn10": _isbn(10),
    "isbn13": _isbn(13),
    "creditcard": _is_card,
    "rgbcolor": _is_rgb,
    "password": lambda _: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "quantity": _is_quantity,
    "k8sshortname": lambda text: not names.dns1123_label(text),
    "k8slongname": lambda text: not names.dns1123_subdomain(text),
}
"""The checks, by format name without hyphens."""
