"""The hub versions of the autoscaling kinds, which are never encoded.

An autoscaler has the fields of v2, which include those of v1. Nested types are those of v2, so that
only v1 needs conversion.
"""

from __future__ import annotations

from kapiserver.api.autoscaling import v1, v2


class HorizontalPodAutoscaler(v2.HorizontalPodAutoscaler):
    """An autoscaler in the hub version."""


class Scale(v1.Scale):
    """A scale subresource in the hub version."""

    listed = False
