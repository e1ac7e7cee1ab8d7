"""Table columns of the coordination group."""

from __future__ import annotations

from kapiserver.api.columns import AGE, NAME, Column, Columns, text

COLUMNS: dict[str, Columns] = {
    "Lease": Columns(
        (
            NAME,
            Column(
                "Holder",
                text("spec", "holderIdentity"),
                "Identity of the current holder of the lease.",
            ),
            AGE,
        )
    ),
    "LeaseCandidate": Columns(
        (
            NAME,
            Column(
                "LeaseName",
                text("spec", "leaseName"),
                "Name of the lease that the candidate is for.",
            ),
            Column(
                "BinaryVersion", text("spec", "binaryVersion"), "Version of the candidate's binary."
            ),
            Column(
                "EmulationVersion",
                text("spec", "emulationVersion"),
                "Version that the candidate emulates.",
            ),
            AGE,
        )
    ),
}
