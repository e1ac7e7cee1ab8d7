"""The headers of a client that is traced: `traceparent` of W3C Trace Context, and `baggage` of W3C
Baggage."""

from __future__ import annotations

import re

from msgspec import Struct

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
MAX_BAGGAGE = 8192
"""The bytes of `baggage` that are passed on at most; W3C's limit."""
MAX_MEMBERS = 64
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_MEMBER = re.compile(rf"\s*{_TOKEN}\s*=\s*{_VALUE}\s*(;\s*{_TOKEN}\s*(=\s*{_VALUE}\s*)?)*")


class Parent(Struct, frozen=True):
    """The span of a client, and whether its trace is sampled."""

    trace_id: int
    span_id: int
    sampled: bool


def parse_traceparent(header: str) -> Parent | None:
    """Return the parent that a header names, None for a header that is missing or not valid."""
    match = _TRACEPARENT.fullmatch(header.strip())
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5] is not None):
        return None
    parent = Parent(int(match[2], 16), int(match[3], 16), bool(int(match[4], 16) & _SAMPLED))
    return parent if parent.trace_id and parent.span_id else None


def valid_baggage(header: str) -> str:
    """Return the header if it is valid, else ""."""
    if not header or len(header) > MAX_BAGGAGE:
        return ""
    members = header.split(",")
    are_valid = len(members) <= MAX_MEMBERS and all(map(_MEMBER.fullmatch, members))
    return header if are_valid else ""
