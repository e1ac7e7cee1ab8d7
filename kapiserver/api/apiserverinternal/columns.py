"""Table columns of the internal.apiserver group."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, UNSET, Column, Columns, join_first, text
from kapiserver.api.types import Tree


def _versions(storage_version: Tree) -> str:
    texts = [
        f"{version.get('apiServerID') or ''}={version.get('encodingVersion') or ''}"
        for version in value_at(storage_version, "status", "storageVersions") or ()
    ]
    return join_first(texts) or UNSET


COLUMNS: dict[str, Columns] = {
    "StorageVersion": Columns(
        (
            NAME,
            Column(
                "CommonEncodingVersion",
                text("status", "commonEncodingVersion", empty=UNSET),
                "Version in which all API servers write, if they agree.",
            ),
            Column("StorageVersions", _versions, "Version in which each API server writes."),
            AGE,
        )
    ),
}
