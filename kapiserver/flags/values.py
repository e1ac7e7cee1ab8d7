"""The types of flag values, and the defaults.

Knows no flag.
"""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kapiserver.apiserver.config import Config

DEFAULTS: Any = SimpleNamespace(**Config().settings())
"""The default of each setting, as an attribute with the name of the flag."""


def port(text: str) -> int:
    """Return a port number. Raises ArgumentTypeError."""
    return _number(text, 0, 65535)


def port_or_off(text: str) -> int | None:
    """Return a port number; None for 0, which turns the port off. Raises ArgumentTypeError."""
    return port(text) or None


def worker_count(text: str) -> int:
    """Return a number of processes. Raises ArgumentTypeError."""
    return _number(text, 1, 256)


def simulated_nodes(text: str) -> int:
    """Return a number of simulated nodes. Raises ArgumentTypeError."""
    return _number(text, 0, 10_000)


def stream_count(text: str) -> int:
    """Return a number of streams of a connection; 0 means the default. Raises
    ArgumentTypeError."""
    return _number(text, 0, 10_000)


def goaway_chance(text: str) -> float:
    """Return a part of the requests; the limit is kube-apiserver's. Raises ArgumentTypeError."""
    chance = fraction(text)
    if chance > 0.02:
        raise argparse.ArgumentTypeError(f"{text!r} is greater than 0.02")
    return chance


def count(text: str) -> int:
    """Return a number from 0. Raises ArgumentTypeError."""
    return _number(text, 0, 1 << 31)


def positive(text: str) -> int:
    """Return a number from 1. Raises ArgumentTypeError."""
    return _number(text, 1, 1 << 31)


def number_to(highest: int) -> Callable[[str], int]:
    """Return a function that returns a number from 1 to `highest`, which raises
    ArgumentTypeError."""
    return lambda text: _number(text, 1, highest)


def _number(text: str, lowest: int, highest: int) -> int:
    if not text.isdecimal() or not lowest <= int(text) <= highest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {lowest} to {highest}")
    return int(text)


def rate(text: str) -> float:
    """Return a number above 0. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def number(text: str) -> float:
    """Return a number from 0. Raises ArgumentTypeError."""
    return 0.0 if text in ("0", "0.0") else rate(text)


def boolean(text: str) -> bool:
    """Return true or false; nothing means true. Raises ArgumentTypeError."""
    value = {"": True, "true": True, "false": False}.get(text.lower())
    if value is None:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return value


def names(text: str) -> tuple[str, ...]:
    """Return the parts of a text that commas separate."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def host_names(text: str) -> tuple[str, ...]:
    """Return host names, of which the first part may be `*`, and IP addresses, which commas
    separate. Raises ArgumentTypeError."""
    from kapiserver.api.names import dns1123_subdomain

    for name in names(text):
        try:
            ipaddress.ip_address(name)
        except ValueError:
            if dns1123_subdomain(name.removeprefix("*.")):
                raise argparse.ArgumentTypeError(
                    f"{name!r} is neither a host name nor an IP address"
                ) from None
    return names(text)


def domain(text: str) -> str:
    """Return a domain in lower case; "" stays. Raises ArgumentTypeError."""
    from kapiserver.api.names import dns1123_subdomain

    name = text.lower().strip(".")
    if name and dns1123_subdomain(name):
        raise argparse.ArgumentTypeError(f"{text!r} is not a domain")
    return name


def size(text: str) -> int:
    """Return the bytes of a size such as 2Gi. Raises ArgumentTypeError."""
    from kapiserver.api.quantity import parse

    try:
        size = parse(text).scaled(0)
    except ValueError:
        size = -1
    if size < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512Mi or 2Gi")
    return size


def seconds(text: str) -> float:
    """Return the seconds of a duration such as 1h30m. Raises ArgumentTypeError."""
    from kapiserver.apiserver.durations import parse_duration

    seconds = parse_duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s or 1h30m")
    return seconds


def positive_seconds(text: str) -> float:
    """Return the seconds of a duration above 0. Raises ArgumentTypeError."""
    duration = seconds(text)
    if not duration:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration above 0")
    return duration


def fraction(text: str) -> float:
    """Return a number from 0 to 1. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def pair(text: str) -> tuple[str, str]:
    """Return the claim and the value of `CLAIM=VALUE`. Raises ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form CLAIM=VALUE")
    return name, value
