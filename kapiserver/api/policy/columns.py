"""The tables of the policy group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.columns import AGE, NAME, CellOf, Column, Columns, number
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree


def _amount(name: str) -> CellOf:
    def cell(budget: Tree, _: datetime) -> str:
        found = value_at(budget, "spec", name)
        return "N/A" if found is None else str(found)

    return cell


COLUMNS: dict[str, Columns] = {
    "PodDisruptionBudget": Columns(
        (
            NAME,
            Column("Min Available", _amount("minAvailable"), "How many pods must stay."),
            Column("Max Unavailable", _amount("maxUnavailable"), "How many may be missing."),
            Column(
                "Allowed Disruptions",
                number("status", "disruptionsAllowed"),
                "How many pods may go now.",
                type="integer",
            ),
            AGE,
        )
    ),
}
