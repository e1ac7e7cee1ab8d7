"""Hypothesis settings for all tests: no deadline for an example, because a busy machine is not a
bug."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "busy", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")
