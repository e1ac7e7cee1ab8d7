"""The tables of the coordination group."""

from __future__ import annotations

from kapiserver.api.columns import AGE, NAME, Column, Columns, text

COLUMNS: dict[str, Columns] = {
    "Lease": Columns(
        (NAME, Column("Holder", text("spec", "holderIdentity"), "Who holds it."), AGE)
    ),
}
