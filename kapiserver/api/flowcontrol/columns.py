"""The tables of the flowcontrol group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.columns import AGE, NAME, NONE, Cell, CellOf, Column, Columns, number, text
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree


def _missing_level(schema: Tree, _: datetime) -> str:
    for one in value_at(schema, "status", "conditions") or ():
        if one.get("type") == "Dangling":
            return one.get("status") or ""
    return "?"


def _shares(level: Tree, _: datetime) -> Cell:
    if value_at(level, "spec", "limited") is None:
        return NONE
    return value_at(level, "spec", "limited", "nominalConcurrencyShares") or 0


def _queuing(name: str) -> CellOf:
    def cell(level: Tree, _: datetime) -> Cell:
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
                "The level of its requests.",
            ),
            Column(
                "MatchingPrecedence",
                number("spec", "matchingPrecedence"),
                "Which is looked at first; the smaller.",
            ),
            Column(
                "DistinguisherMethod",
                text("spec", "distinguisherMethod", "type", empty=NONE),
                "What tells its flows apart.",
            ),
            AGE,
            Column("MissingPL", _missing_level, "Whether its level is not there."),
        )
    ),
    "PriorityLevelConfiguration": Columns(
        (
            NAME,
            Column("Type", text("spec", "type"), "Limited or Exempt."),
            Column("NominalConcurrencyShares", _shares, "Its share of the server."),
            Column("Queues", _queuing("queues"), "How many queues."),
            Column("HandSize", _queuing("handSize"), "Queues that one flow may use."),
            Column("QueueLengthLimit", _queuing("queueLengthLimit"), "Requests in a queue."),
            AGE,
        )
    ),
}
