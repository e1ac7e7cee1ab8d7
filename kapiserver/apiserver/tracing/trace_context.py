"""The header `traceparent` of W3C Trace Context: which trace and span a client works on."""

from __future__ import annotations

import re

from msgspec import Struct

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


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
