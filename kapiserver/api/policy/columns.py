"""Table columns of the policy group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, CellReader, Column, Columns, number
from kapiserver.api.types import Tree


def _amount(name: str) -> CellReader:
    def cell(budget: Tree) -> str:
        amount = value_at(budget, "spec", name)
        return "N/A" if amount is None else str(amount)

    return cell


COLUMNS: dict[str, Columns] = {
    "PodDisruptionBudget": Columns(
        (
            NAME,
            Column(
                "Min Available",
                _amount("minAvailable"),
                "Number or percentage of pods that must stay available.",
            ),
            Column(
                "Max Unavailable",
                _amount("maxUnavailable"),
                "Number or percentage of pods that may be unavailable.",
            ),
            Column(
                "Allowed Disruptions",
                number("status", "disruptionsAllowed"),
                "Number of pods that may be evicted now.",
                type="integer",
            ),
            AGE,
        )
    ),
}
