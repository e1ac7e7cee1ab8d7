"""Table columns of the scheduling group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, NONE, Column, Columns, flag, number, text
from kapiserver.api.types import Tree


def _policy(group: Tree) -> str:
    gang = value_at(group, "spec", "schedulingPolicy", "gang")
    return "Basic" if gang is None else "Gang"


def _status(group: Tree) -> str:
    state = "Pending"
    for condition in value_at(group, "status", "conditions") or ():
        if condition.get("type") == "PodGroupInitiallyScheduled":
            state = "Scheduled" if condition.get("status") == "True" else "Unschedulable"
        elif condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return condition.get("reason") or ""
    return state


_POLICY = Column("Policy", _policy, "Scheduling policy of the group: Basic or Gang.")
_WORKLOAD = Column(
    "Workload",
    text("spec", "workloadRef", "workloadName", empty=NONE),
    "Workload that the group was made from.",
)

COLUMNS: dict[str, Columns] = {
    "CompositePodGroup": Columns((NAME, _POLICY, _WORKLOAD, AGE)),
    "PodGroup": Columns(
        (
            NAME,
            _POLICY,
            _WORKLOAD,
            Column("Status", _status, "Whether the group is scheduled."),
            AGE,
        )
    ),
    "PriorityClass": Columns(
        (
            NAME,
            Column(
                "Value",
                number("value"),
                "Priority of pods in the class; higher is more important.",
                type="integer",
            ),
            Column(
                "Global-Default",
                flag("globalDefault"),
                "Whether pods without a class get this one.",
                type="boolean",
            ),
            AGE,
            Column(
                "PreemptionPolicy",
                text("preemptionPolicy"),
                "Whether pods of the class may preempt others.",
            ),
        )
    ),
    "Workload": Columns((NAME, AGE)),
}
