"""The table columns of CustomResourceDefinitions."""

from __future__ import annotations

from kapiserver.api.columns import NAME, Column, Columns, text
from kapiserver.api.conditions import is_true
from kapiserver.api.types import Tree


def _versions(obj: Tree) -> str:
    served = sorted(
        version["name"] + ("(storage)" if version["storage"] else "")
        for version in obj["spec"].get("versions") or ()
        if version["served"]
    )
    return ",".join(served)


def _short_names(obj: Tree) -> str:
    return ",".join(obj["spec"]["names"].get("shortNames") or ())


def _established(obj: Tree) -> bool:
    return is_true(obj, "Established")


COLUMNS = {
    "CustomResourceDefinition": Columns(
        (
            NAME,
            Column("Scope", text("spec", "scope"), "Scope of the resource: Namespaced or Cluster."),
            Column(
                "Versions",
                _versions,
                "Versions that are served; (storage) marks the one that objects are stored in.",
            ),
            Column(
                "Created At",
                text("metadata", "creationTimestamp"),
                "When the definition was created.",
                type="date",
            ),
            Column("Group", text("spec", "group"), "API group of the resource.", priority=1),
            Column("Kind", text("spec", "names", "kind"), "Kind of the objects.", priority=1),
            Column("ShortNames", _short_names, "Short names of the resource.", priority=1),
            Column(
                "Established",
                _established,
                "Whether the resource is served.",
                type="boolean",
                priority=1,
            ),
        ),
        has_null_rows=True,
    )
}
