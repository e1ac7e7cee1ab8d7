"""The hub of autoscaling: v2's shape, which holds all that v1 says.

Every nested type is v2's own, so that only v1 has anything to convert. Never on the wire.
"""

from __future__ import annotations

from kapiserver.api.autoscaling import v1, v2


class HorizontalPodAutoscaler(v2.HorizontalPodAutoscaler):
    """An autoscaler as the server handles it."""


class Scale(v1.Scale):
    """A scale as the server handles it."""

    listed = False
