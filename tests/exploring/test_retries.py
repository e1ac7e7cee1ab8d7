"""When an operator tries again, as its objects say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kapiserver.exploring.running.retries import MAX_RETRY_SECONDS, seconds_to_retry

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ('{"delayed":"2026-01-01T12:01:00.000000+00:00","retries":1}', 60.0),
        ("2026-01-01T12:00:10Z", 10.0),
        ("2026-01-01T14:00:30+02:00", 30.0),
        ("2026-01-01T11:59:59Z", 0.0),
        ("2026-13-01T12:00:10Z", 0.0),
        ("in a minute", 0.0),
    ],
)
def test_moments(value: str, seconds: float) -> None:
    """A moment in an annotation or a field that lies ahead."""
    assert seconds_to_retry([{"metadata": {"annotations": {"next": value}}}], NOW) == seconds
    assert seconds_to_retry([{"status": {"next": [value]}}], NOW) == seconds


def test_the_last_moment_counts() -> None:
    """Of several moments; not one that is too far ahead to wait for."""
    moments = ["2026-01-01T12:00:10Z", "2026-01-01T12:00:20Z", "2026-01-01T12:05:00Z"]
    assert seconds_to_retry([{"a": moment} for moment in moments], NOW) == 20.0
    assert MAX_RETRY_SECONDS < 300
