"""Strategies of the flowcontrol group."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.flowcontrol.declarative_rules import PRIORITY_LEVEL
from kapiserver.api.flowcontrol.validation import (
    validate_conditions_update,
    validate_flow_schema,
    validate_priority_level,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class FlowSchemaStrategy(SpecStrategy):
    """The strategy of flow schemas."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_flow_schema(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_flow_schema(new))


class PriorityLevelStrategy(SpecStrategy):
    """The strategy of priority level configurations."""

    declarative_rules = PRIORITY_LEVEL

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_priority_level(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_priority_level(new))


_FLOW_SCHEMA = FlowSchemaStrategy()
_PRIORITY_LEVEL = PriorityLevelStrategy()

STRATEGIES: dict[str, Strategy] = {
    "flowschemas": _FLOW_SCHEMA,
    "flowschemas/status": StatusStrategy(
        _FLOW_SCHEMA, preserved_metadata=STATUS_METADATA, validate_status=validate_conditions_update
    ),
    "prioritylevelconfigurations": _PRIORITY_LEVEL,
    "prioritylevelconfigurations/status": StatusStrategy(
        _PRIORITY_LEVEL,
        preserved_metadata=STATUS_METADATA,
        validate_status=validate_conditions_update,
    ),
}
