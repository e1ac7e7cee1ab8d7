"""events.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.events import v1
from kapiserver.api.types import override_field


class Event(v1.Event):
    eventTime = override_field(required=False)


class EventSeries(v1.EventSeries):
    count = override_field(required=False)
    lastObservedTime = override_field(required=False)
