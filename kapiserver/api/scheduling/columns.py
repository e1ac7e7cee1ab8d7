"""The tables of the scheduling group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.columns import AGE, NAME, NONE, Column, Columns, flag, number, text
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree


def _policy(group: Tree, _: datetime) -> str:
    gang = value_at(group, "spec", "schedulingPolicy", "gang")
    return "Basic" if gang is None else "Gang"


def _status(group: Tree, _: datetime) -> str:
    found = "Pending"
    for one in value_at(group, "status", "conditions") or ():
        if one.get("type") == "PodGroupInitiallyScheduled":
            found = "Scheduled" if one.get("status") == "True" else "Unschedulable"
        elif one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            return one.get("reason") or ""
    return found


_POLICY = Column("Policy", _policy, "Whether all are placed or none.")
_WORKLOAD = Column(
    "Workload",
    text("spec", "workloadRef", "workloadName", empty=NONE),
    "The workload it comes from.",
)

COLUMNS: dict[str, Columns] = {
    "CompositePodGroup": Columns((NAME, _POLICY, _WORKLOAD, AGE)),
    "PodGroup": Columns(
        (NAME, _POLICY, _WORKLOAD, Column("Status", _status, "How far it has come."), AGE)
    ),
    "PriorityClass": Columns(
        (
            NAME,
            Column("Value", number("value"), "The larger comes first.", type="integer"),
            Column(
                "Global-Default",
                flag("globalDefault"),
                "Whether pods without a class have this one.",
                type="boolean",
            ),
            AGE,
            Column(
                "PreemptionPolicy", text("preemptionPolicy"), "Whether its pods push others out."
            ),
        )
    ),
    "Workload": Columns((NAME, AGE)),
}
