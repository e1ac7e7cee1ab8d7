"""The strategy of events.k8s.io: core events with stricter validation."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api import names
from kapiserver.api.core.strategies import EventStrategy
from kapiserver.api.errors import FieldError
from kapiserver.api.events.validation import validate_event_update, validate_new_event
from kapiserver.api.metadata_validation import standard_finalizers
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class NewEventStrategy(EventStrategy):
    """The strategy of events in events.k8s.io. After create, only the series changes."""

    def check_name(self, name: str) -> list[str]:
        return names.dns1123_subdomain(name)

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return standard_finalizers(finalizers)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_new_event(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_event_update(new, old))


STRATEGIES: dict[str, Strategy] = {"events": NewEventStrategy()}
