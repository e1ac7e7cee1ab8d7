"""The tables of the coordination group."""

from __future__ import annotations

from kapiserver.api.columns import AGE, NAME, Column, Columns, text

COLUMNS: dict[str, Columns] = {
    "Lease": Columns(
        (NAME, Column("Holder", text("spec", "holderIdentity"), "Who holds it."), AGE)
    ),
    "LeaseCandidate": Columns(
        (
            NAME,
            Column("LeaseName", text("spec", "leaseName"), "The lease it would take."),
            Column("BinaryVersion", text("spec", "binaryVersion"), "The version of the program."),
            Column(
                "EmulationVersion", text("spec", "emulationVersion"), "The version it behaves like."
            ),
            AGE,
        )
    ),
}
