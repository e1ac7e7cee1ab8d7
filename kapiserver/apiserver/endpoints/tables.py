"""Convert objects to rows of a Table, and to PartialObjectMetadata.

The functions depend on their arguments alone. Mirrors asTable and asPartialObjectMetadata of
k8s.io/apiserver/pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from kapiserver.api.columns import Columns
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.errors import BadRequest

Include: TypeAlias = Literal["None", "Metadata", "Object"]


class TableBuilder(Struct, frozen=True, kw_only=True):
    """Builds a Table of the objects of one resource.

    table_version   the version of the Table: v1 or v1beta1 of meta.k8s.io
    version         the version of the objects in its rows
    include         whether a row holds its object, the object's metadata, or neither
    """

    scheme: Scheme
    columns: Columns
    table_version: GroupVersion
    version: GroupVersion
    include: Include

    def head(self, metadata: Tree) -> Tree:
        """Return a Table without rows; `metadata` is a ListMeta."""
        return {
            "kind": "Table",
            "apiVersion": str(self.table_version),
            "metadata": metadata,
            "columnDefinitions": self.columns.definitions(),
            "rows": [],
        }

    def row(self, obj: Tree, now: datetime) -> Tree:
        """Return the row of an object in the hub version."""
        row: Tree = {"cells": self.columns.cells(obj, now)}
        conditions = self.columns.conditions(obj)
        if conditions:
            row["conditions"] = conditions
        row["object"] = self.row_object(obj)
        return row

    def row_object(self, obj: Tree) -> Tree | None:
        """Return what the row of an object in the hub version holds of it."""
        match self.include:
            case "None":
                return None
            case "Metadata":
                return partial_metadata(obj, self.table_version)
            case "Object":
                return in_version(self.scheme, obj, self.version)


def in_version(scheme: Scheme, obj: Tree, version: GroupVersion) -> Tree:
    """Return the object converted to a version; the same tree if it is in that version. Raises
    BadRequest if it cannot be converted."""
    if obj["apiVersion"] == str(version):
        return obj
    try:
        return scheme.convert(obj, version)
    except (ConversionFailed, NotRegistered) as error:
        raise BadRequest(str(error)) from None


def include_of(options: Tree) -> Include:
    """Return `includeObject` of TableOptions; the default is Metadata. Raises BadRequest."""
    include = options.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadRequest(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"\"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        )
    return cast(Include, include)


def partial_metadata(obj: Tree, version: GroupVersion) -> Tree:
    """Return the PartialObjectMetadata of an object, in a version of meta.k8s.io."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": str(version),
        "metadata": obj.get("metadata") or {},
    }
