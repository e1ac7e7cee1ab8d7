"""Table columns of the node group."""

from __future__ import annotations

from kapiserver.api.columns import AGE, NAME, Column, Columns, text

COLUMNS: dict[str, Columns] = {
    "RuntimeClass": Columns(
        (
            NAME,
            Column(
                "Handler", text("handler"), "Handler in the node's container runtime configuration."
            ),
            AGE,
        )
    ),
}
