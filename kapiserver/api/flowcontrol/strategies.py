"""Strategies of the flowcontrol group."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.flowcontrol.declarations import PRIORITY_LEVEL
from kapiserver.api.flowcontrol.validation import (
    validate_conditions_update,
    validate_flow_schema,
    validate_priority_level,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class FlowSchemaStrategy(SpecStrategy):
    """The mandatory schemas stay as they are."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_flow_schema(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_flow_schema(new))


class PriorityLevelStrategy(SpecStrategy):
    """The mandatory levels stay as they are."""

    declarative_rules = PRIORITY_LEVEL

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_priority_level(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_priority_level(new))


_SCHEMA = FlowSchemaStrategy()
_LEVEL = PriorityLevelStrategy()

STRATEGIES: dict[str, Strategy] = {
    "flowschemas": _SCHEMA,
    "flowschemas/status": StatusStrategy(
        _SCHEMA, preserved_metadata=STATUS_METADATA, validate_status=validate_conditions_update
    ),
    "prioritylevelconfigurations": _LEVEL,
    "prioritylevelconfigurations/status": StatusStrategy(
        _LEVEL, preserved_metadata=STATUS_METADATA, validate_status=validate_conditions_update
    ),
}
