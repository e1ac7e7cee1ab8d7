"""How writes of the events group behave: on core's events, by stricter rules."""

from __future__ import annotations

from kapiserver.api.core.strategies import EventStrategy
from kapiserver.api.errors import FieldError
from kapiserver.api.events.validation import changed_event, new_event
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class NewEventStrategy(EventStrategy):
    """An event is what its first report says; later ones count in its series."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(new_event(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_event(new, old))


STRATEGIES: dict[str, Strategy] = {"events": NewEventStrategy()}
