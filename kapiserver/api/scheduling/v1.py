"""scheduling.k8s.io/v1: priority classes."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field, int32


class PriorityClass(Kind):
    """Maps a name to the priority that pods get by naming the class."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Pods name the class in priorityClassName; names that "
            "begin with system- are reserved."
        ),
    )
    value: int32 = field(
        2,
        always=True,
        doc=(
            "The priority of pods with this class; higher values are scheduled first. At most "
            "1000000000 for user-defined classes. It cannot be changed."
        ),
    )
    globalDefault: bool = field(
        3,
        doc=(
            "If true, pods that name no class get this one. At most one class in the cluster "
            "should have it. Defaults to false."
        ),
    )
    description: str = field(4, doc="A text for users that says when to use the class.")
    preemptionPolicy: str | None = field(
        5,
        enum=("PreemptLowerPriority", "Never"),
        doc=(
            "PreemptLowerPriority (the default) lets pods of the class evict pods of lower "
            "priority. Never makes them wait for room. It cannot be changed."
        ),
    )
