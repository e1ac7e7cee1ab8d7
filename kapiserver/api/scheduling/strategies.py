"""How writes of the scheduling group behave."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.objects import metadata_of
from kapiserver.api.scheduling.validation.pod_groups import (
    changed_pod_group,
    changed_pod_group_status,
    pod_group,
)
from kapiserver.api.scheduling.validation.priority_classes import (
    SYSTEM_CLASSES,
    changed_priority_class,
    priority_class,
)
from kapiserver.api.scheduling.validation.workloads import changed_workload, workload
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class PriorityClassStrategy(Strategy):
    """Its value stays, so there is one generation; those of the system stay as a whole."""

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(priority_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_priority_class(new, old))

    def undeletable(self, name: str) -> str:
        if name in SYSTEM_CLASSES:
            return "this is a system priority class and cannot be deleted"
        return ""


class PodGroupStrategy(SpecStrategy):
    """A group, of pods or of groups."""

    generations = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(pod_group(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_pod_group(new, old))


class WorkloadStrategy(Strategy):
    """Templates of groups."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(workload(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_workload(new, old))


_GROUP = PodGroupStrategy()

STRATEGIES: dict[str, Strategy] = {
    "compositepodgroups": _GROUP,
    "compositepodgroups/status": StatusStrategy(
        _GROUP, keeps_metadata=STATUS_METADATA, rule=changed_pod_group_status
    ),
    "podgroups": _GROUP,
    "podgroups/status": StatusStrategy(
        _GROUP, keeps_metadata=STATUS_METADATA, rule=changed_pod_group_status
    ),
    "priorityclasses": PriorityClassStrategy(),
    "workloads": WorkloadStrategy(),
}
