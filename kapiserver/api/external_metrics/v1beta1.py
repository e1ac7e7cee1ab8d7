"""external.metrics.k8s.io/v1beta1: metrics that are not of Kubernetes objects."""

from __future__ import annotations

from kapiserver.api.quantity import Quantity
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, field, int64


class ExternalMetricValue(Kind):
    """One value of an external metric."""

    metricName: str = field(1, always=True, doc="Name of the metric.")
    metricLabels: dict[str, str] = field(
        2, always=True, doc="Labels that distinguish the value from others of the metric."
    )
    timestamp: Time = field(3, always=True, doc="When the metric was measured.")
    window: int64 | None = field(
        4,
        proto="windowSeconds",
        doc="Seconds over which a rate was measured. Absent or 0 for a momentary value.",
    )
    value: Quantity = field(5, always=True, doc="The value of the metric.")
