"""custom.metrics.k8s.io/v1beta2: metrics of any objects."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.quantity import Quantity
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int64


class MetricIdentifier(Type):
    """The metric that a value is of."""

    name: str = field(1, always=True, doc="Name of the metric.")
    selector: LabelSelector | None = field(
        2, doc="Labels by which the value was selected. If it is absent, only the name selected it."
    )


class MetricValue(Kind):
    """The value of a metric of one object."""

    describedObject: ObjectReference = field(1, doc="The object that the metric is about.")
    metric: MetricIdentifier = field(2, doc="The metric.")
    timestamp: Time = field(3, always=True, doc="When the metric was measured.")
    windowSeconds: int64 | None = field(
        4, doc="Seconds over which a rate was measured. Absent or 0 for a momentary value."
    )
    value: Quantity = field(5, always=True, doc="The value of the metric.")
