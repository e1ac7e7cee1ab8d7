"""Strategies of the lifecycle group."""

from __future__ import annotations

from kapiserver.api.lifecycle.declarative_rules import EVICTION, EVICTION_REQUEST
from kapiserver.api.lifecycle.validation import (
    validate_eviction_status_update,
    validate_request_status_update,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy


class EvictionStrategy(SpecStrategy):
    """The strategy of evictions, whose target is immutable."""

    allow_unconditional_update = False
    declarative_rules = EVICTION


class EvictionRequestStrategy(SpecStrategy):
    """The strategy of eviction requests, whose target is immutable. The requester may withdraw."""

    allow_unconditional_update = False
    declarative_rules = EVICTION_REQUEST


_EVICTION = EvictionStrategy()
_REQUEST = EvictionRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "evictionrequests": _REQUEST,
    "evictionrequests/status": StatusStrategy(
        _REQUEST, preserved_metadata=STATUS_METADATA, validate_status=validate_request_status_update
    ),
    "evictions": _EVICTION,
    "evictions/status": StatusStrategy(
        _EVICTION,
        preserved_metadata=STATUS_METADATA,
        validate_status=validate_eviction_status_update,
    ),
}
