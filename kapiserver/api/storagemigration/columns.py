"""Table columns of the storagemigration group."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import Column, Columns, name
from kapiserver.api.types import Tree


def _resource(migration: Tree) -> str:
    reference = value_at(migration, "spec", "resource") or {}
    resource, group = reference.get("resource") or "", reference.get("group") or ""
    return f"{resource}.{group}" if group else resource


def _status(migration: Tree) -> str:
    state = "Unknown"
    for condition in value_at(migration, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in (
            "Failed",
            "Running",
            "Succeeded",
        ):
            state = condition["type"]
    return state


COLUMNS: dict[str, Columns] = {
    "StorageVersionMigration": Columns(
        (
            Column("Name", name, "Name of the object."),
            Column("Resource", _resource, "Resource whose objects are rewritten."),
            Column(
                "Status", _status, "State of the migration: Running, Succeeded, Failed or Unknown."
            ),
        )
    ),
}
