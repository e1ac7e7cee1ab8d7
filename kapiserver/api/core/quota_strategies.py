"""Strategies of limit ranges and resource quotas."""

from __future__ import annotations

from kapiserver.api.core.validation.quotas import (
    validate_limit_range,
    validate_quota_status_update,
    validate_resource_quota,
    validate_resource_quota_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class LimitRangeStrategy(Strategy):
    """The strategy of limit ranges."""

    allow_create_on_update = True

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_limit_range(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_limit_range(new))


class ResourceQuotaStrategy(SpecStrategy):
    """The strategy of resource quotas."""

    tracks_generation = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_resource_quota(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_resource_quota_update(new, old))


_RESOURCE_QUOTA = ResourceQuotaStrategy()

STRATEGIES: dict[str, Strategy] = {
    "limitranges": LimitRangeStrategy(),
    "resourcequotas": _RESOURCE_QUOTA,
    "resourcequotas/status": StatusStrategy(
        _RESOURCE_QUOTA, validate_status=validate_quota_status_update
    ),
}
