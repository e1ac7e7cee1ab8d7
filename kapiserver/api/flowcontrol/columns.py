"""Table columns of the flowcontrol group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, NONE, Cell, CellReader, Column, Columns, number, text
from kapiserver.api.types import Tree


def _dangling(schema: Tree) -> str:
    for condition in value_at(schema, "status", "conditions") or ():
        if condition.get("type") == "Dangling":
            return condition.get("status") or ""
    return "?"


def _shares(level: Tree) -> Cell:
    if value_at(level, "spec", "limited") is None:
        return NONE
    return value_at(level, "spec", "limited", "nominalConcurrencyShares") or 0


def _queuing(name: str) -> CellReader:
    def cell(level: Tree) -> Cell:
        queuing = value_at(level, "spec", "limited", "limitResponse", "queuing")
        return NONE if queuing is None else queuing.get(name) or 0

    return cell


COLUMNS: dict[str, Columns] = {
    "FlowSchema": Columns(
        (
            NAME,
            Column(
                "PriorityLevel",
                text("spec", "priorityLevelConfiguration", "name"),
                "Priority level of the requests that match.",
            ),
            Column(
                "MatchingPrecedence",
                number("spec", "matchingPrecedence"),
                "Order in which schemas are matched; the lowest number comes first.",
            ),
            Column(
                "DistinguisherMethod",
                text("spec", "distinguisherMethod", "type", empty=NONE),
                "What separates requests into flows: ByUser, ByNamespace or nothing.",
            ),
            AGE,
            Column("MissingPL", _dangling, "Whether the priority level does not exist."),
        ),
        order=lambda schema: value_at(schema, "spec", "matchingPrecedence") or 0,
    ),
    "PriorityLevelConfiguration": Columns(
        (
            NAME,
            Column("Type", text("spec", "type"), "Type of the level: Limited or Exempt."),
            Column(
                "NominalConcurrencyShares",
                _shares,
                "Share of the server's concurrency that the level has.",
            ),
            Column("Queues", _queuing("queues"), "Number of queues of the level."),
            Column("HandSize", _queuing("handSize"), "Number of queues that one flow can use."),
            Column(
                "QueueLengthLimit",
                _queuing("queueLengthLimit"),
                "Largest number of requests in each queue.",
            ),
            AGE,
        )
    ),
}
