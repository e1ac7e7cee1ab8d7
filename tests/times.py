"""Times in the form of the API."""

from __future__ import annotations

from datetime import UTC, datetime


def text_of(seconds: float) -> str:
    """Return a time in seconds since 1970 as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
