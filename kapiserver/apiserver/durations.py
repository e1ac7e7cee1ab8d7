"""Go's notation for durations: `1m30s`, `250ms`. Pure."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s|us|µs|ns))+|0", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def parse_duration(text: str) -> float | None:
    """Seconds of a duration; None where the text is none, or negative."""
    if _DURATION.fullmatch(text) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
