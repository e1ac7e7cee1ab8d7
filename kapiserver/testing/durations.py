"""Durations, as tests write them."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from kapiserver.apiserver.durations import parse_duration

Duration: TypeAlias = str | float | timedelta
"""Text such as `10m`, `1h30m`, `250ms`, `7d`, a number of seconds, or a timedelta."""


def parse_seconds(duration: Duration) -> float:
    """Return the seconds of a duration. Raises ValueError."""
    seconds: float | None
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif not isinstance(duration, str):
        seconds = duration
    elif duration.endswith("d") and duration[:-1].isdigit():
        seconds = int(duration[:-1]) * 86400.0
    else:
        seconds = parse_duration(duration)
    if seconds is None or not 0 <= seconds < 1e10:
        raise ValueError(f"{duration!r} is not a duration; write 10m, 1h30m, 250ms, 7d or seconds")
    return seconds
