"""Strategies of the scheduling group."""

from __future__ import annotations

from kapiserver.api.accessors import metadata_of
from kapiserver.api.errors import FieldError
from kapiserver.api.scheduling.validation.pod_groups import (
    validate_pod_group,
    validate_pod_group_status_update,
    validate_pod_group_update,
)
from kapiserver.api.scheduling.validation.priority_classes import (
    SYSTEM_CLASSES,
    validate_priority_class,
    validate_priority_class_update,
)
from kapiserver.api.scheduling.validation.workloads import (
    validate_workload,
    validate_workload_update,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class PriorityClassStrategy(Strategy):
    """The strategy of priority classes. Their value is immutable, so there is one generation.
    System classes cannot be deleted."""

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_priority_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_priority_class_update(new, old))

    def deletion_refusal(self, name: str) -> str:
        if name in SYSTEM_CLASSES:
            return "this is a system priority class and cannot be deleted"
        return ""


class PodGroupStrategy(SpecStrategy):
    """The strategy of pod groups and composite pod groups."""

    tracks_generation = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_group(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_group_update(new, old))


class WorkloadStrategy(Strategy):
    """The strategy of workloads."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_workload(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_workload_update(new, old))


_GROUP = PodGroupStrategy()

STRATEGIES: dict[str, Strategy] = {
    "compositepodgroups": _GROUP,
    "compositepodgroups/status": StatusStrategy(
        _GROUP, preserved_metadata=STATUS_METADATA, validate_status=validate_pod_group_status_update
    ),
    "podgroups": _GROUP,
    "podgroups/status": StatusStrategy(
        _GROUP, preserved_metadata=STATUS_METADATA, validate_status=validate_pod_group_status_update
    ),
    "priorityclasses": PriorityClassStrategy(),
    "workloads": WorkloadStrategy(),
}
