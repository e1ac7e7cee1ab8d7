"""Parses durations in Go's notation, such as `1m30s` and `250ms`."""

from __future__ import annotations

import re

from kapiserver.api.go_format import quote

_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s|us|µs|ns))+|0", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


_HEAD = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_UNIT = re.compile(r"[^\d.]*")


def duration_problem(text: str) -> str:
    """Return what Go's time.ParseDuration says about a text that is not a duration."""
    quoted, rest = quote(text), text
    while rest:
        number = _HEAD.match(rest)
        if number is None:
            break
        unit = _UNIT.match(rest, number.end())
        assert unit is not None
        if not unit[0]:
            return f"time: missing unit in duration {quoted}"
        if unit[0] not in _SECONDS:
            return f"time: unknown unit {quote(unit[0])} in duration {quoted}"
        rest = rest[unit.end() :]
    return f"time: invalid duration {quoted}"


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration, or None if the text is not one or is negative."""
    if _DURATION.fullmatch(text) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
