"""How writes of the lifecycle group behave."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.lifecycle.validation import (
    changed_eviction,
    changed_eviction_request,
    changed_eviction_status,
    changed_request_status,
    eviction,
    eviction_request,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class EvictionStrategy(SpecStrategy):
    """What goes does not change."""

    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(eviction(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_eviction(new, old))


class EvictionRequestStrategy(SpecStrategy):
    """What shall go does not change; who asked may withdraw."""

    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(eviction_request(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_eviction_request(new, old))


_EVICTION = EvictionStrategy()
_REQUEST = EvictionRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "evictionrequests": _REQUEST,
    "evictionrequests/status": StatusStrategy(
        _REQUEST, keeps_metadata=STATUS_METADATA, rule=changed_request_status
    ),
    "evictions": _EVICTION,
    "evictions/status": StatusStrategy(
        _EVICTION, keeps_metadata=STATUS_METADATA, rule=changed_eviction_status
    ),
}
